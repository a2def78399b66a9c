//! [`QdrantVectorStore`]: the port over marks, collections, reads and writes. Must not know the server's requests.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::call::{Caller, gone};
use super::collection;
use super::config::QdrantConfig;
use super::marks::{Mark, Marks};
use super::query::{self, Scope, needs_own_statistics};
use super::read;
use super::write::Writer;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{ChunkId, CollectionSchema, CorpusRef, DocumentId, StoredChunk};
use crate::spi::{
    CollectionInfo, HybridQuery, Point, StoreAnswer, VectorStore, check_leg, check_points,
};
use crate::tenancy::Placement;

/// The first server version that takes word statistics from one tenant's points.
const OWN_STATISTICS: (u32, u32) = (1, 19);

/// The store on a Qdrant server. Cheap to make; nothing is sent before the first call.
///
/// Each call to the server, with its retries, takes [`QdrantConfig::timeout`] at most; a call of the port makes a few of
/// them, an upsert one for each batch.
pub struct QdrantVectorStore {
    caller: Caller,
    marks: Marks,
    config: QdrantConfig,
    closed: AtomicBool,
    has_own_statistics: OnceCell<bool>,
}

impl QdrantVectorStore {
    /// Prepares the client; makes no connection.
    ///
    /// # Errors
    /// `InvalidField` for an unusable address, key or time limit.
    pub fn new(config: QdrantConfig) -> Result<Self> {
        let caller = Caller::new(&config)?;
        let prefix = &config.collection_prefix;
        Ok(Self {
            marks: Marks::new(caller.clone(), prefix, config.replication_factor),
            caller,
            config,
            closed: AtomicBool::new(false),
            has_own_statistics: OnceCell::new(),
        })
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::new(ErrorKind::Draining, "the store is closed"))
        } else {
            Ok(())
        }
    }

    fn name(&self, at: &Placement) -> String {
        format!("{}{}", self.config.collection_prefix, at.collection)
    }

    /// Whether a placement lives for its tenant.
    async fn lives(&self, at: &Placement) -> Result<bool> {
        self.check_open()?;
        Ok(self.marks.live(at).await?.is_some())
    }

    /// After a mark was set: a drop may have come in between and missed the collection. Others may live in a shared one.
    async fn still_lives(&self, at: &Placement, name: &str) -> Result<()> {
        if self.marks.live(at).await?.is_some() {
            return Ok(());
        }
        if !at.shared {
            collection::delete(&self.caller, name).await?;
        }
        Err(gone())
    }

    fn writer<'a>(&'a self, at: &'a Placement, collection: &'a str) -> Writer<'a> {
        Writer {
            caller: &self.caller,
            collection,
            tenant: at.tenant(),
            points: self.config.upsert_points,
            bytes: self.config.upsert_bytes,
            replicated: self.config.replicated(),
        }
    }

    /// An older server would silently take the statistics of all tenants.
    async fn check_statistics(&self) -> Result<()> {
        let asked = self.has_own_statistics.get_or_try_init(|| async {
            let version = self.version().await?;
            Ok::<_, Error>(version >= OWN_STATISTICS)
        });
        if *asked.await? {
            return Ok(());
        }
        Err(Error::invalid_field(
            "retrieval.legs",
            "must not have bm25 in a shared collection of a server before 1.19: word statistics would mix tenants",
        ))
    }

    /// The server's major and minor version; 0.0 when it doesn't say.
    async fn version(&self) -> Result<(u32, u32)> {
        let reply = self.caller.call("health_check", |client, _| async move {
            Ok(client.health_check().await?)
        });
        let version = reply.await?.version;
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        Ok((parts.next().unwrap_or(0), parts.next().unwrap_or(0)))
    }
}

/// What a placement was built with, and whether that is still going on.
fn standing(marks: &[Mark], at: &Placement) -> Result<Option<(CollectionSchema, bool)>> {
    let own = |mark: &&Mark| mark.generation == at.generation && mark.collection == at.collection;
    if let Some(mark) = marks.iter().find(own)
        && let Some(schema) = &mark.live
    {
        return Ok(Some((schema.clone(), mark.building)));
    }
    let dropped = |mark: &Mark| mark.live.is_none() && mark.generation >= at.generation;
    if marks.iter().any(dropped) {
        return Err(gone());
    }
    Ok(None)
}

#[async_trait]
impl VectorStore for QdrantVectorStore {
    async fn describe(&self, corpus: &CorpusRef) -> Result<Option<CollectionInfo>> {
        self.check_open()?;
        let marks = self.marks.of(corpus).await?;
        let served = marks.into_iter().filter(|mark| !mark.building);
        let live = served.filter_map(|mark| {
            let generation = mark.generation;
            mark.live
                .map(|schema| CollectionInfo { generation, schema })
        });
        Ok(live.max_by_key(|info| info.generation))
    }

    async fn ensure(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        self.check_open()?;
        if let Some((stored, building)) = standing(&self.marks.of(&at.corpus).await?, at)? {
            stored.require(schema)?;
            return if building {
                self.serve(at).await
            } else {
                Ok(())
            };
        }
        let name = self.name(at);
        collection::ensure(&self.caller, &self.config, &name, schema).await?;
        self.marks.add(at, schema).await?;
        self.still_lives(at, &name).await
    }

    async fn prepare(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        self.check_open()?;
        if let Some((stored, _)) = standing(&self.marks.of(&at.corpus).await?, at)? {
            return stored.require(schema);
        }
        let name = self.name(at);
        collection::ensure(&self.caller, &self.config, &name, schema).await?;
        self.marks.add_building(at, schema).await?;
        self.still_lives(at, &name).await
    }

    async fn serve(&self, at: &Placement) -> Result<()> {
        self.check_open()?;
        let (schema, building) =
            standing(&self.marks.of(&at.corpus).await?, at)?.ok_or_else(gone)?;
        if building {
            self.marks.add(at, &schema).await?;
            self.still_lives(at, &self.name(at)).await?;
        }
        Ok(())
    }

    async fn upsert(&self, at: &Placement, points: Vec<Point>) -> Result<()> {
        self.check_open()?;
        let schema = self.marks.live(at).await?.ok_or_else(gone)?;
        check_points(&points, schema.dimension)?;
        let name = self.name(at);
        let writer = self.writer(at, &name);
        writer.upsert(points).await?;
        // A drop that came meanwhile may have deleted before these points were there. In a collection of its own they
        // went with it.
        if at.shared && !self.lives(at).await? {
            writer.delete_all().await?;
            return Err(gone());
        }
        Ok(())
    }

    async fn delete_below(&self, at: &Placement, document: &DocumentId, below: u64) -> Result<u32> {
        if !self.lives(at).await? {
            return Ok(0);
        }
        let name = self.name(at);
        self.writer(at, &name).delete_below(document, below).await
    }

    async fn drop_generation(&self, at: &Placement) -> Result<()> {
        self.check_open()?;
        self.marks.bury(at).await?;
        let name = self.name(at);
        if at.shared {
            self.writer(at, &name).delete_all().await
        } else {
            Ok(collection::delete(&self.caller, &name).await?)
        }
    }

    async fn query(&self, at: &Placement, query: &HybridQuery) -> Result<StoreAnswer> {
        self.check_open()?;
        if needs_own_statistics(query, at.shared) {
            self.check_statistics().await?;
        }
        let collection = self.name(at);
        let scope = Scope {
            collection: &collection,
            tenant: at.tenant(),
            shared: at.shared,
            config: &self.config,
        };
        let requests = query::requests(&scope, query)?;
        // Side by side: whether the placement lives for its tenant costs no time. Its answer counts first.
        let asked = query::send(&self.caller, &collection, requests);
        let (live, results) = tokio::join!(self.marks.live(at), asked);
        let schema = live?.ok_or_else(gone)?;
        for leg in &query.legs {
            check_leg(leg, schema.dimension)?;
        }
        query::answer(query, results?)
    }

    async fn document_chunks(
        &self,
        at: &Placement,
        document: &DocumentId,
        sequence: u64,
    ) -> Result<Vec<StoredChunk>> {
        if !self.lives(at).await? {
            return Ok(Vec::new());
        }
        let name = self.name(at);
        read::document(&self.caller, &name, at.tenant(), document, sequence).await
    }

    async fn points(&self, at: &Placement, ids: &[ChunkId]) -> Result<Vec<Point>> {
        if !self.lives(at).await? {
            return Ok(Vec::new());
        }
        read::points(&self.caller, &self.name(at), at.tenant(), ids).await
    }

    async fn count(&self, at: &Placement) -> Result<u64> {
        if !self.lives(at).await? {
            return Ok(0);
        }
        read::count_all(&self.caller, &self.name(at), at.tenant()).await
    }

    /// Our time limit and the server's own. A call is sent at the latest when our limit ends, and the server logs it or
    /// gives it up within its limit. What it has logged it may apply even later, but before anything that comes after.
    fn write_limit(&self) -> Duration {
        let limit = self.caller.limit();
        limit + Duration::from_secs(Caller::server_seconds(limit))
    }

    async fn health(&self) -> Result<()> {
        self.check_open()?;
        self.version().await.map(drop)
    }

    /// Every write was applied before its call returned, so nothing is left to do.
    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

impl fmt::Debug for QdrantVectorStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QdrantVectorStore")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
