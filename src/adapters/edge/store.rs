//! [`EdgeVectorStore`]: the port over the shards. Every engine call leaves the async threads here.
//! Must not know engine types.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::apply::Work;
use super::config::EdgeConfig;
use super::engine::Engine;
use super::inner::{Inner, absent_is_none};
use super::query;
use super::read;
use super::shard::Shard;
use super::upkeep::needs_optimizing;
use crate::error::{Error, Result};
use crate::model::{ChunkId, CollectionSchema, CorpusRef, DocumentId, Leg, StoredChunk};
use crate::spi::{CollectionInfo, HybridQuery, Point, StoreAnswer, VectorStore, check_points};
use crate::tenancy::Placement;

/// The embedded store. One per folder and process; dropping it without `close` leaves everything acknowledged durable.
///
/// A panic inside the engine is caught and answered as `Internal`; the shard concerned is opened again from what was
/// flushed, other shards don't notice.
pub struct EdgeVectorStore {
    inner: Arc<Inner>,
}

/// Size figures of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionStats {
    /// The collection.
    pub collection: String,
    /// Whether its shard is open.
    pub open: bool,
    /// Points of all tenants, approximately; 0 while it isn't open.
    pub points: u64,
    /// Bytes of the log.
    pub wal_bytes: u64,
    /// Bytes of everything else.
    pub data_bytes: u64,
    /// How often the shard was copied to get rid of its log or to be repaired.
    pub copies: u32,
}

impl EdgeVectorStore {
    /// Opens the store and starts its threads. Blocking. The caller holds the folder's lock.
    ///
    /// # Errors
    /// `DependencyFailed` when the folder can't be read or written. A corrupt file fails only the calls it concerns.
    pub fn open(config: EdgeConfig) -> Result<Self> {
        let inner = Arc::new(Inner::open(config)?);
        for number in 0..inner.config.writer_threads.max(1) {
            let shared = inner.clone();
            spawn(format!("ragbus-write-{number}"), move || {
                shared.pool.work(|shard| {
                    if needs_optimizing(shard, &shared.config) {
                        shared.nudge();
                    }
                });
            })?;
        }
        let shared = inner.clone();
        spawn("ragbus-upkeep".to_owned(), move || shared.keep_up())?;
        Ok(Self { inner })
    }

    /// Size figures of every collection, by name.
    ///
    /// # Errors
    /// `Draining` after `close`; engine failures.
    pub async fn stats(&self) -> Result<Vec<CollectionStats>> {
        let inner = self.checked()?;
        blocking(move || read::stats(&inner.all())).await
    }

    /// How many flushes have served writes: fewer than writes, since writes that wait together share one.
    pub fn write_flushes(&self) -> usize {
        self.inner.pool.flushes()
    }

    fn checked(&self) -> Result<Arc<Inner>> {
        self.inner.check_open().map(|()| self.inner.clone())
    }

    async fn write(&self, shard: &Arc<Shard>, work: Work) -> Result<u32> {
        let answer = self.inner.pool.submit(shard, work)?.await;
        answer.map_err(|_| Error::internal("a write was lost in the store"))?
    }

    /// Reads on a blocking thread; a collection that doesn't exist gives the default.
    async fn read<T: Default + Send + 'static>(
        &self,
        at: &Placement,
        call: impl FnOnce(&Engine) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = self.checked()?;
        let at = at.clone();
        blocking(move || match absent_is_none(inner.reader(&at))? {
            Some(engine) => call(&engine),
            None => Ok(T::default()),
        })
        .await
    }
}

#[async_trait]
impl VectorStore for EdgeVectorStore {
    async fn describe(&self, corpus: &CorpusRef) -> Result<Option<CollectionInfo>> {
        self.checked()?.describe(corpus)
    }

    async fn ensure(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        let inner = self.checked()?;
        if inner.is_ensured(at, schema)? {
            return Ok(());
        }
        let (at, schema) = (at.clone(), schema.clone());
        blocking(move || inner.ensure(&at, &schema)).await
    }

    async fn prepare(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        let inner = self.checked()?;
        let (at, schema) = (at.clone(), schema.clone());
        blocking(move || inner.prepare(&at, &schema)).await
    }

    async fn serve(&self, at: &Placement) -> Result<()> {
        let inner = self.checked()?;
        let at = at.clone();
        blocking(move || inner.serve(&at)).await
    }

    async fn upsert(&self, at: &Placement, points: Vec<Point>) -> Result<()> {
        let shard = self.checked()?.shard(at)?;
        check_points(&points, shard.schema.dimension)?;
        if points.is_empty() {
            return Ok(());
        }
        let tenant = at.tenant().clone();
        self.write(&shard, Work::Upsert { tenant, points })
            .await
            .map(drop)
    }

    async fn delete_below(&self, at: &Placement, document: &DocumentId, below: u64) -> Result<u32> {
        let Some(shard) = self.checked()?.find(at)? else {
            return Ok(0);
        };
        let (tenant, document) = (at.tenant().clone(), document.clone());
        self.write(
            &shard,
            Work::DeleteBelow {
                tenant,
                document,
                below,
            },
        )
        .await
    }

    async fn drop_generation(&self, at: &Placement) -> Result<()> {
        let inner = self.checked()?;
        let placement = at.clone();
        match blocking(move || inner.bury(&placement)).await? {
            Some(shard) => {
                let tenant = at.tenant().clone();
                self.write(&shard, Work::DeleteTenant { tenant })
                    .await
                    .map(drop)
            }
            None => Ok(()),
        }
    }

    async fn query(&self, at: &Placement, query: &HybridQuery) -> Result<StoreAnswer> {
        if at.shared && query.legs.iter().any(|leg| leg.leg == Leg::Bm25) {
            return Err(Error::invalid_field(
                "retrieval.legs",
                "must not have bm25 in a shared collection of the embedded store: word statistics would mix tenants",
            ));
        }
        let inner = self.checked()?;
        let (at, query) = (at.clone(), query.clone());
        blocking(move || query::answer(&*inner.reader(&at)?, at.tenant(), &query)).await
    }

    async fn document_chunks(
        &self,
        at: &Placement,
        document: &DocumentId,
        sequence: u64,
    ) -> Result<Vec<StoredChunk>> {
        let (tenant, document) = (at.tenant().clone(), document.clone());
        self.read(at, move |engine| {
            read::document(engine, &tenant, &document, sequence)
        })
        .await
    }

    async fn points(&self, at: &Placement, ids: &[ChunkId]) -> Result<Vec<Point>> {
        let (tenant, ids) = (at.tenant().clone(), ids.to_vec());
        self.read(at, move |engine| read::points(engine, &tenant, &ids))
            .await
    }

    async fn count(&self, at: &Placement) -> Result<u64> {
        let tenant = at.tenant().clone();
        self.read(at, move |engine| read::count(engine, &tenant))
            .await
    }

    /// Nothing: its writes end with the process, and a live process tells their outcome.
    fn write_limit(&self) -> Duration {
        Duration::ZERO
    }

    async fn health(&self) -> Result<()> {
        let inner = self.checked()?;
        blocking(move || read::folder(&inner.config.dir)).await
    }

    async fn close(&self) -> Result<()> {
        let inner = self.inner.clone();
        inner.stop();
        for shard in inner.all() {
            // What waits is done in order: the answer to a refused job isn't needed.
            shard.queue.settled().await;
        }
        blocking(move || {
            inner.close_shards();
            Ok(())
        })
        .await
    }
}

impl Drop for EdgeVectorStore {
    fn drop(&mut self) {
        self.inner.stop();
    }
}

impl fmt::Debug for EdgeVectorStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeVectorStore")
            .field("dir", &self.inner.config.dir)
            .finish_non_exhaustive()
    }
}

async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let joined = tokio::task::spawn_blocking(call).await;
    joined.map_err(|_| Error::internal("a store call panicked"))?
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name(name).spawn(body);
    spawned
        .map(drop)
        .map_err(|cause| Error::dependency("cannot start a store thread", cause))
}
