//! A vector store whose calls fail, or land late, as a script says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::model::{ChunkId, CollectionSchema, CorpusRef, DocumentId, StoredChunk};
use crate::spi::{CollectionInfo, HybridQuery, Point, StoreAnswer, VectorStore};
use crate::tenancy::Placement;

/// What becomes of the next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFault {
    /// It fails and has no effect.
    Fails,
    /// Its outcome stays unknown: the call never returns, and the write is held until [`FaultyStore::land`] or
    /// [`FaultyStore::lose`].
    Hangs,
}

#[derive(Debug, Default)]
struct Script {
    faults: VecDeque<WriteFault>,
    held: Vec<(Placement, Vec<Point>)>,
    down: bool,
}

/// A store around another one.
#[derive(Debug, Clone)]
pub struct FaultyStore {
    inner: Arc<dyn VectorStore>,
    script: Arc<Mutex<Script>>,
}

impl FaultyStore {
    /// Passes everything on until told otherwise.
    pub fn new(inner: Arc<dyn VectorStore>) -> Self {
        Self {
            inner,
            script: Arc::default(),
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next upsert meets this fault.
    pub fn then(&self, fault: WriteFault) {
        self.script().faults.push_back(fault);
    }

    /// Faults that no write has met yet are forgotten.
    pub fn clear_faults(&self) {
        self.script().faults.clear();
    }

    /// Whether every call fails as if the store were down.
    pub fn set_down(&self, down: bool) {
        self.script().down = down;
    }

    /// Whether a write is held.
    pub fn holds_a_write(&self) -> bool {
        !self.script().held.is_empty()
    }

    /// Held writes are lost.
    pub fn lose(&self) {
        self.script().held.clear();
    }

    /// Held writes land now. A write to a collection that is gone lands nowhere.
    ///
    /// # Errors
    /// The inner store's.
    pub async fn land(&self) -> Result<()> {
        let held = std::mem::take(&mut self.script().held);
        for (at, points) in held {
            match self.inner.upsert(&at, points).await {
                Err(error) if error.kind() != crate::error::ErrorKind::NotFound => {
                    return Err(error);
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn up(&self) -> Result<()> {
        if self.script().down {
            return Err(Error::dependency("the store is down", "scripted"));
        }
        Ok(())
    }
}

#[async_trait]
impl VectorStore for FaultyStore {
    async fn describe(&self, corpus: &CorpusRef) -> Result<Option<CollectionInfo>> {
        self.up()?;
        self.inner.describe(corpus).await
    }

    async fn ensure(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        self.up()?;
        self.inner.ensure(at, schema).await
    }

    async fn prepare(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        self.up()?;
        self.inner.prepare(at, schema).await
    }

    async fn serve(&self, at: &Placement) -> Result<()> {
        self.up()?;
        self.inner.serve(at).await
    }

    async fn upsert(&self, at: &Placement, points: Vec<Point>) -> Result<()> {
        self.up()?;
        let fault = self.script().faults.pop_front();
        match fault {
            None => self.inner.upsert(at, points).await,
            Some(WriteFault::Fails) => Err(Error::dependency("a write failed", "scripted")),
            Some(WriteFault::Hangs) => {
                self.script().held.push((at.clone(), points));
                std::future::pending().await
            }
        }
    }

    async fn delete_below(&self, at: &Placement, document: &DocumentId, below: u64) -> Result<u32> {
        self.up()?;
        self.inner.delete_below(at, document, below).await
    }

    async fn drop_generation(&self, at: &Placement) -> Result<()> {
        self.up()?;
        self.inner.drop_generation(at).await
    }

    async fn query(&self, at: &Placement, query: &HybridQuery) -> Result<StoreAnswer> {
        self.up()?;
        self.inner.query(at, query).await
    }

    async fn document_chunks(
        &self,
        at: &Placement,
        document: &DocumentId,
        sequence: u64,
    ) -> Result<Vec<StoredChunk>> {
        self.up()?;
        self.inner.document_chunks(at, document, sequence).await
    }

    async fn points(&self, at: &Placement, ids: &[ChunkId]) -> Result<Vec<Point>> {
        self.up()?;
        self.inner.points(at, ids).await
    }

    async fn count(&self, at: &Placement) -> Result<u64> {
        self.up()?;
        self.inner.count(at).await
    }

    fn write_limit(&self) -> Duration {
        self.inner.write_limit()
    }

    async fn health(&self) -> Result<()> {
        self.up()?;
        self.inner.health().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
