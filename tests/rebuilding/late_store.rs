//! A store whose calls take random time and whose writes land even when their caller is gone, within a limit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ragbus::error::{Error, Result};
use ragbus::model::{ChunkId, CollectionSchema, CorpusRef, DocumentId, StoredChunk};
use ragbus::spi::{CollectionInfo, HybridQuery, Point, StoreAnswer, VectorStore};
use ragbus::tenancy::Placement;
use tokio::time::{Instant, sleep};

/// After which a write has landed or never will.
pub const LIMIT: Duration = Duration::from_millis(50);

/// SplitMix64: small, and the same everywhere.
#[derive(Debug)]
pub struct Chance(Mutex<u64>);

impl Chance {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(seed)))
    }

    pub fn below(&self, limit: u64) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    /// Up to so many milliseconds.
    pub async fn pause(&self, most: u64) {
        sleep(Duration::from_millis(self.below(most + 1))).await;
    }
}

#[derive(Debug)]
pub struct LateStore {
    inner: Arc<dyn VectorStore>,
    chance: Arc<Chance>,
}

impl LateStore {
    pub fn over(inner: Arc<dyn VectorStore>, chance: Arc<Chance>) -> Self {
        Self { inner, chance }
    }
}

#[async_trait]
impl VectorStore for LateStore {
    async fn describe(&self, corpus: &CorpusRef) -> Result<Option<CollectionInfo>> {
        let told = self.inner.describe(corpus).await;
        self.chance.pause(5).await;
        told
    }

    async fn ensure(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        self.chance.pause(5).await;
        self.inner.ensure(at, schema).await
    }

    async fn prepare(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        self.chance.pause(5).await;
        self.inner.prepare(at, schema).await
    }

    async fn serve(&self, at: &Placement) -> Result<()> {
        // Long enough for jobs to come in between the registry's switch and this.
        self.chance.pause(80).await;
        self.inner.serve(at).await
    }

    async fn upsert(&self, at: &Placement, points: Vec<Point>) -> Result<()> {
        let (inner, at) = (Arc::clone(&self.inner), at.clone());
        let (way, sent_at) = (self.chance.below(40), Instant::now());
        let sent = tokio::spawn(async move {
            sleep(Duration::from_millis(way)).await;
            if sent_at.elapsed() > LIMIT {
                // On a busy machine: given up in time, as a server does.
                return Err(Error::dependency("a write took too long", "given up"));
            }
            inner.upsert(&at, points).await
        });
        sent.await
            .map_err(|e| Error::internal("a write panicked").caused_by(e))?
    }

    async fn delete_below(&self, at: &Placement, document: &DocumentId, below: u64) -> Result<u32> {
        self.chance.pause(5).await;
        let deleted = self.inner.delete_below(at, document, below).await;
        self.chance.pause(5).await;
        deleted
    }

    async fn drop_generation(&self, at: &Placement) -> Result<()> {
        self.chance.pause(5).await;
        self.inner.drop_generation(at).await
    }

    async fn query(&self, at: &Placement, query: &HybridQuery) -> Result<StoreAnswer> {
        self.inner.query(at, query).await
    }

    async fn document_chunks(
        &self,
        at: &Placement,
        document: &DocumentId,
        sequence: u64,
    ) -> Result<Vec<StoredChunk>> {
        self.chance.pause(5).await;
        self.inner.document_chunks(at, document, sequence).await
    }

    async fn points(&self, at: &Placement, ids: &[ChunkId]) -> Result<Vec<Point>> {
        self.inner.points(at, ids).await
    }

    async fn count(&self, at: &Placement) -> Result<u64> {
        self.inner.count(at).await
    }

    fn write_limit(&self) -> Duration {
        LIMIT
    }

    async fn health(&self) -> Result<()> {
        self.inner.health().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
