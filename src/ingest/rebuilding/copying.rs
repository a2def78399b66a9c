//! Copies documents into a generation that is being built: the stored text of each, embedded with the new models.
//!
//! A copy carries the sequence of the version it was made of, and ends like a job does: what is older than what is served
//! goes. Must not know when a rebuild is switched to.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::time::Instant;

use super::RebuildParts;
use super::lease::Lease;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::points::{Embedder, Prepared};
use crate::model::{CorpusRef, DocumentId, Metadata, StoredChunk, Timestamp};
use crate::spi::{Point, Unbuilt};
use crate::tenancy::Placement;

const PAGE: u32 = 64;
const AT_ONCE: usize = 8;

/// Copies from one generation to another.
pub(super) struct Copier<'a> {
    pub(super) parts: &'a RebuildParts,
    pub(super) lease: &'a Lease,
    pub(super) corpus: &'a CorpusRef,
    pub(super) from: Placement,
    pub(super) to: Placement,
    pub(super) waiting: &'a OpenWrites,
}

/// What one pass over the documents did.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// Documents that were copied.
    pub(super) copied: u64,
    /// A document that can't be copied, and why; the others are.
    pub(super) refused: Option<(DocumentId, Error)>,
    /// Somebody else's now, or over.
    pub(super) lost: bool,
    /// Told to stop in the middle.
    pub(super) stopped: bool,
}

/// Documents whose points are being replaced, and since when that is waited for.
#[derive(Debug)]
pub(super) struct OpenWrites {
    patience: Duration,
    since: Mutex<HashMap<DocumentId, Instant>>,
}

impl OpenWrites {
    /// Waits so long for the job that replaces a document: longer than a redelivery takes to come.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            since: Mutex::default(),
        }
    }

    /// Whether to wait for the document's job. One that never ends, a dead letter, must not stop the rebuild.
    fn worth_waiting(&self, document: &DocumentId) -> bool {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let first = since.entry(document.clone()).or_insert_with(Instant::now);
        first.elapsed() < self.patience
    }
}

enum Copied {
    Done,
    Open,
}

impl Copier<'_> {
    /// Copies every document whose copy isn't what is served, once.
    ///
    /// # Errors
    /// Those after which all would fail: a dependency that is down.
    pub(super) async fn pass(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<Pass> {
        let mut pass = Pass::default();
        let mut after: Option<DocumentId> = None;
        loop {
            let rebuilds = &self.parts.rebuilds;
            let page = rebuilds.unbuilt(self.corpus, after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(pass);
            };
            after = Some(last.document.clone());
            let ids: Vec<DocumentId> = page.iter().map(|u| u.document.clone()).collect();
            let (generation, owner) = (self.to.generation, &self.parts.owner);
            if !rebuilds
                .begin_copies(self.corpus, generation, owner, &ids)
                .await?
            {
                pass.lost = true;
                return Ok(pass);
            }
            self.page(page, &mut pass).await?;
            if stop() {
                pass.stopped = true;
                return Ok(pass);
            }
        }
    }

    /// All of a page end before the first error is told: no write is given up half-way.
    async fn page(&self, page: Vec<Unbuilt>, pass: &mut Pass) -> Result<()> {
        let copy = |unbuilt: Unbuilt| async move {
            let copied = self.copy(&unbuilt).await;
            (unbuilt.document, copied)
        };
        let copies = stream::iter(page).map(copy).buffer_unordered(AT_ONCE);
        let mut failed = None;
        for (document, copied) in copies.collect::<Vec<_>>().await {
            match copied {
                Ok(Copied::Done) => pass.copied += 1,
                Ok(Copied::Open) => {}
                Err(error) if passes(&error) => failed = Some(error),
                Err(error) => pass.refused = Some((document, error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn copy(&self, unbuilt: &Unbuilt) -> Result<Copied> {
        let Unbuilt { document, live, .. } = unbuilt;
        let store = &self.parts.store;
        let chunks = match unbuilt.chunks {
            0 => Vec::new(),
            _ => store.document_chunks(&self.from, document, *live).await?,
        };
        let found = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        let missing = unbuilt.chunks.saturating_sub(found);
        if missing > 0 && unbuilt.open && self.waiting.worth_waiting(document) {
            return Ok(Copied::Open);
        }
        let points = self.embedded(chunks, unbuilt.expires_at).await?;
        self.lease.allows(store.write_limit())?;
        if !points.is_empty() {
            store.upsert(&self.to, points).await?;
        }
        let now = self
            .parts
            .documents
            .live_sequence(self.corpus, document)
            .await?;
        store
            .delete_below(&self.to, document, now.max(*live))
            .await?;
        let generation = self.to.generation;
        self.parts
            .rebuilds
            .end_copy(self.corpus, generation, document, *live, missing)
            .await?;
        Ok(Copied::Done)
    }

    async fn embedded(
        &self,
        chunks: Vec<StoredChunk>,
        expires_at: Option<Timestamp>,
    ) -> Result<Vec<Point>> {
        let prepared = Prepared {
            chunks,
            expires_at,
            metadata: Metadata::default(),
            warnings: Vec::new(),
        };
        let embedder = Embedder(self.parts.models.current().clone());
        let (points, _) = embedder.embed(prepared, HashMap::new()).await?;
        Ok(points)
    }
}

/// What would have failed for any document, and passes.
fn passes(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DependencyFailed
            | ErrorKind::Timeout
            | ErrorKind::Overloaded
            | ErrorKind::Draining
            | ErrorKind::NotFound
    )
}
