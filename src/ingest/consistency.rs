//! Whether registry and store agree about a corpus, and what can be mended.
//!
//! Jobs in work make them differ for a moment, so what looks wrong is looked at twice. Points that no row serves are removed;
//! points that are missing can't be made again from nowhere: their document has to be put again.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::error::Result;
use crate::model::{CorpusRef, DocumentId};
use crate::spi::{DocumentRegistry, VectorStore};
use crate::tenancy::{Placement, TenancyStrategy};

const PAGE: u32 = 256;
const AT_ONCE: usize = 8;
/// Names of damaged documents that are told.
const TOLD: usize = 100;

/// What is compared.
#[derive(Debug, Clone)]
pub struct ConsistencyParts {
    /// The registry.
    pub registry: Arc<dyn DocumentRegistry>,
    /// The store.
    pub store: Arc<dyn VectorStore>,
    /// Where corpora live.
    pub tenancy: TenancyStrategy,
}

/// A document whose chunks are not what its row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedDocument {
    /// The document.
    pub document_id: DocumentId,
    /// Chunks that the registry serves.
    pub expected: u32,
    /// Chunks of that version in the store.
    pub found: u32,
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CorpusCheck {
    /// Documents that are no tombstones.
    pub documents: u64,
    /// Their chunks, by the registry.
    pub registry_chunks: u64,
    /// Points of the tenant in the corpus, by the store; after mending.
    pub stored_points: u64,
    /// Documents whose chunks are missing: they have to be put again. At most 100 are named.
    pub damaged: Vec<DamagedDocument>,
    /// How many documents are damaged.
    pub damaged_documents: u64,
    /// Points that no row served and that were removed.
    pub removed: u64,
}

impl CorpusCheck {
    /// Whether registry and store agree.
    pub fn is_clean(&self) -> bool {
        self.damaged_documents == 0 && self.stored_points == self.registry_chunks
    }
}

impl ConsistencyParts {
    /// Compares a corpus, and with `repair` removes what nothing serves. A corpus that doesn't exist has nothing.
    ///
    /// # Errors
    /// `DependencyFailed` when either side can't be read.
    pub async fn verify(&self, corpus: &CorpusRef, repair: bool) -> Result<CorpusCheck> {
        let corpora = self.registry.corpora(&corpus.tenant).await?;
        let Some(entry) = corpora.into_iter().find(|c| c.corpus == corpus.corpus) else {
            return Ok(CorpusCheck::default());
        };
        let at = self.tenancy.place(corpus, entry.generation);
        let mut check = CorpusCheck::default();
        if repair {
            check.removed = self.clean_up(corpus, &at).await?;
        }
        self.compare(corpus, &at, &mut check).await?;
        check.stored_points = self.store.count(&at).await?;
        Ok(check)
    }

    /// Every document of the corpus against its row.
    async fn compare(
        &self,
        corpus: &CorpusRef,
        at: &Placement,
        check: &mut CorpusCheck,
    ) -> Result<()> {
        let mut after: Option<DocumentId> = None;
        loop {
            let page = self
                .registry
                .documents(corpus, after.as_ref(), PAGE)
                .await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.document_id.clone());
            check.documents += page.len() as u64;
            check.registry_chunks += page.iter().map(|d| u64::from(d.chunks)).sum::<u64>();
            let ids = page.into_iter().map(|entry| entry.document_id);
            let looked: Vec<Option<DamagedDocument>> = stream::iter(ids)
                .map(|id| self.damage(corpus, at, id))
                .buffered(AT_ONCE)
                .try_collect()
                .await?;
            for damaged in looked.into_iter().flatten() {
                check.damaged_documents += 1;
                if check.damaged.len() < TOLD {
                    check.damaged.push(damaged);
                }
            }
        }
    }

    /// What a document lacks. A job may be replacing it right now: only what is seen twice counts.
    async fn damage(
        &self,
        corpus: &CorpusRef,
        at: &Placement,
        document_id: DocumentId,
    ) -> Result<Option<DamagedDocument>> {
        let mut damaged = None;
        for _ in 0..2 {
            let Some(row) = self.registry.document(corpus, &document_id).await? else {
                return Ok(None);
            };
            let stored = self
                .store
                .document_chunks(at, &document_id, row.live)
                .await?;
            let found = u32::try_from(stored.len()).unwrap_or(u32::MAX);
            if found == row.chunks {
                return Ok(None);
            }
            damaged = Some(DamagedDocument {
                document_id: document_id.clone(),
                expected: row.chunks,
                found,
            });
        }
        Ok(damaged)
    }

    /// Step 5 of the protocol for every row, tombstones too: what is older than what is served goes.
    async fn clean_up(&self, corpus: &CorpusRef, at: &Placement) -> Result<u64> {
        let mut removed = 0;
        let mut after: Option<DocumentId> = None;
        loop {
            let page = self
                .registry
                .documents_below(corpus, u64::MAX, after.as_ref(), PAGE)
                .await?;
            let Some(last) = page.last() else {
                return Ok(removed);
            };
            after = Some(last.clone());
            let counts: Vec<u32> = stream::iter(page)
                .map(|id| self.clean_document(corpus, at, id))
                .buffered(AT_ONCE)
                .try_collect()
                .await?;
            removed += counts.into_iter().map(u64::from).sum::<u64>();
        }
    }

    async fn clean_document(
        &self,
        corpus: &CorpusRef,
        at: &Placement,
        document: DocumentId,
    ) -> Result<u32> {
        let live = self.registry.live_sequence(corpus, &document).await?;
        self.store.delete_below(at, &document, live).await
    }
}
