//! The document registry in memory: the same rules, without SQL.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::memory_rebuilds::MemoryRebuild;
use crate::error::Result;
use crate::model::{
    CorpusRef, Decision, DocumentId, DocumentRow, Finish, Hashes, IngestResult, IngestStatus,
    ModelPair, TenantId, Timestamp, Written, begin_delete, begin_put, fence_document, finish_put,
};
use crate::spi::{Begun, Buried, CorpusEntry, DocumentEntry, DocumentRegistry, Fenced, Finished};

#[derive(Debug, Clone)]
pub(super) struct Corpus {
    pub(super) generation: u32,
    fence: u64,
    pub(super) active: bool,
    pub(super) models: ModelPair,
    pub(super) unserved: bool,
    pub(super) rebuild: Option<MemoryRebuild>,
    result: Option<IngestResult>,
    pub(super) documents: BTreeMap<DocumentId, (DocumentRow, Timestamp)>,
}

impl Default for Corpus {
    fn default() -> Self {
        Self {
            generation: 1,
            fence: 0,
            active: false,
            models: ModelPair::default(),
            unserved: false,
            rebuild: None,
            result: None,
            documents: BTreeMap::new(),
        }
    }
}

impl Corpus {
    fn change<T>(
        &mut self,
        document: &DocumentId,
        apply: impl FnOnce(&mut DocumentRow) -> T,
    ) -> (T, u64) {
        let entry = self
            .documents
            .entry(document.clone())
            .or_insert_with(|| (DocumentRow::default(), Timestamp::now()));
        let before = entry.0.clone();
        let outcome = apply(&mut entry.0);
        if entry.0 != before {
            entry.1 = Timestamp::now();
        }
        (outcome, entry.0.live)
    }

    fn entry(&self, name: &CorpusRef) -> CorpusEntry {
        let live = self.documents.values().filter(|(row, _)| !row.deleted);
        CorpusEntry {
            corpus: name.corpus.clone(),
            documents: live.clone().count() as u64,
            chunks: live.map(|(row, _)| u64::from(row.chunks)).sum(),
            generation: self.generation,
            dense_model: self.models.dense.clone(),
            sparse_model: self.models.sparse.clone(),
        }
    }

    fn document(&self, id: &DocumentId) -> Option<DocumentEntry> {
        let (row, updated_at) = self.documents.get(id).filter(|(row, _)| !row.deleted)?;
        Some(DocumentEntry {
            document_id: id.clone(),
            sequence: row.sequence,
            live: row.live,
            chunks: row.chunks,
            generation: self.generation,
            updated_at: *updated_at,
            expires_at: row.expires_at,
            metadata: row.metadata.clone(),
        })
    }
}

/// An in-memory registry.
#[derive(Debug, Default)]
pub struct MemoryRegistry {
    corpora: Mutex<BTreeMap<CorpusRef, Corpus>>,
    starts: Mutex<BTreeMap<(TenantId, u64), u32>>,
}

impl MemoryRegistry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, BTreeMap<CorpusRef, Corpus>> {
        self.corpora.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn existing<T>(&self, corpus: &CorpusRef, read: impl FnOnce(&Corpus) -> T) -> Option<T> {
        self.locked().get(corpus).map(read)
    }
}

#[async_trait]
impl DocumentRegistry for MemoryRegistry {
    async fn corpus_models(&self, corpus: &CorpusRef) -> Result<Option<ModelPair>> {
        let models = self.existing(corpus, |entry| entry.active.then(|| entry.models.clone()));
        Ok(models.flatten())
    }

    async fn begin_put(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        hashes: &Hashes,
        models: &ModelPair,
        template: &IngestResult,
    ) -> Result<Begun> {
        let mut corpora = self.locked();
        let entry = corpora.entry(corpus.clone()).or_default();
        let (fence, generation) = (entry.fence, entry.generation);
        let (decision, live) =
            entry.change(document, |row| begin_put(row, fence, hashes, template));
        if !matches!(decision, Decision::Finished(_)) && !entry.active {
            entry.active = true;
            entry.models = models.clone();
        }
        Ok(Begun {
            decision,
            live,
            generation,
            models: if entry.active {
                entry.models.clone()
            } else {
                models.clone()
            },
            unserved: entry.unserved,
        })
    }

    async fn begin_delete(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        template: &IngestResult,
    ) -> Result<Begun> {
        let mut corpora = self.locked();
        let entry = corpora.entry(corpus.clone()).or_default();
        let (fence, generation) = (entry.fence, entry.generation);
        let (decision, live) = entry.change(document, |row| begin_delete(row, fence, template));
        Ok(Begun {
            decision,
            live,
            generation,
            models: entry.models.clone(),
            unserved: entry.unserved,
        })
    }

    async fn finish_put(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        written: &Written,
    ) -> Result<Finished> {
        let mut corpora = self.locked();
        let entry = corpora.entry(corpus.clone()).or_default();
        let (fence, generation) = (entry.fence, entry.generation);
        let (finish, live): (Finish, u64) =
            entry.change(document, |row| finish_put(row, fence, generation, written));
        Ok(Finished { finish, live })
    }

    async fn raise_fence(&self, corpus: &CorpusRef, template: &IngestResult) -> Result<Fenced> {
        let mut corpora = self.locked();
        let entry = corpora.entry(corpus.clone()).or_default();
        let mut result = template.clone();
        result.status = IngestStatus::Deleted;
        let s = template.sequence;
        if s > entry.fence {
            let gone = entry
                .documents
                .values()
                .filter(|(row, _)| !row.deleted && row.sequence < s);
            result.chunks_deleted = gone.map(|(row, _)| row.chunks).sum();
            entry.fence = s;
            entry.result = Some(result.clone());
        } else if s == entry.fence
            && let Some(stored) = &entry.result
        {
            result = stored.clone();
        }
        Ok(Fenced {
            result,
            generation: entry.generation,
        })
    }

    async fn documents_below(
        &self,
        corpus: &CorpusRef,
        sequence: u64,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentId>> {
        let found = self.existing(corpus, |entry| {
            let old = entry.documents.iter().filter(|(id, (row, _))| {
                row.sequence <= sequence && after.is_none_or(|after| *id > after)
            });
            old.map(|(id, _)| id.clone()).take(limit as usize).collect()
        });
        Ok(found.unwrap_or_default())
    }

    async fn fence_document(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        sequence: u64,
    ) -> Result<Option<Buried>> {
        let mut corpora = self.locked();
        let entry = corpora.entry(corpus.clone()).or_default();
        let (clean_up, live) = entry.change(document, |row| fence_document(row, sequence));
        Ok(clean_up.then_some(Buried {
            live,
            generation: entry.generation,
            unserved: entry.unserved,
        }))
    }

    async fn retire_generation(&self, corpus: &CorpusRef, sequence: u64) -> Result<Option<u32>> {
        let mut corpora = self.locked();
        let entry = corpora.entry(corpus.clone()).or_default();
        let used = entry
            .documents
            .values()
            .any(|(row, _)| !row.deleted || row.sequence > sequence || row.claimed > sequence);
        if entry.active && !used {
            entry.active = false;
            entry.unserved = false;
            let begun = entry.rebuild.take().map_or(0, |r| r.rebuild.generation);
            entry.generation = entry.generation.max(begun) + 1;
        }
        let open = entry.rebuild.as_ref().map(|r| &r.rebuild);
        let replaced = open.filter(|r| !r.state.is_over()).map(|r| r.previous);
        let needed = replaced.map_or(entry.generation, |old| old.min(entry.generation));
        Ok(needed.checked_sub(1).filter(|below| *below > 0))
    }

    async fn corpora(&self, tenant: &TenantId) -> Result<Vec<CorpusEntry>> {
        let corpora = self.locked();
        let own = corpora
            .iter()
            .filter(|(name, c)| c.active && name.tenant == *tenant);
        Ok(own.map(|(name, corpus)| corpus.entry(name)).collect())
    }

    async fn document_count(&self, tenant: &TenantId) -> Result<u64> {
        let corpora = self.locked();
        let own = corpora.iter().filter(|(name, _)| name.tenant == *tenant);
        let rows = own.flat_map(|(_, corpus)| corpus.documents.values());
        Ok(rows.filter(|(row, _)| !row.deleted).count() as u64)
    }

    async fn documents(
        &self,
        corpus: &CorpusRef,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentEntry>> {
        let found = self.existing(corpus, |entry| {
            let ids = entry
                .documents
                .keys()
                .filter(|id| after.is_none_or(|after| *id > after));
            ids.filter_map(|id| entry.document(id))
                .take(limit as usize)
                .collect()
        });
        Ok(found.unwrap_or_default())
    }

    async fn document(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
    ) -> Result<Option<DocumentEntry>> {
        Ok(self
            .existing(corpus, |entry| entry.document(document))
            .flatten())
    }

    async fn live_sequence(&self, corpus: &CorpusRef, document: &DocumentId) -> Result<u64> {
        let live = self.existing(corpus, |entry| {
            entry.documents.get(document).map_or(0, |(row, _)| row.live)
        });
        Ok(live.unwrap_or(0))
    }

    async fn job_started(&self, tenant: &TenantId, stream_sequence: u64) -> Result<u32> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = starts.entry((tenant.clone(), stream_sequence)).or_default();
        *count += 1;
        Ok(*count - 1)
    }

    async fn job_given_back(&self, tenant: &TenantId, stream_sequence: u64) -> Result<()> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = starts.get_mut(&(tenant.clone(), stream_sequence)) {
            *count = count.saturating_sub(1);
        }
        Ok(())
    }

    async fn job_ended(&self, tenant: &TenantId, stream_sequence: u64) -> Result<()> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.remove(&(tenant.clone(), stream_sequence));
        Ok(())
    }

    async fn highest_sequence(&self) -> Result<u64> {
        let corpora = self.locked();
        let of_corpus = |corpus: &Corpus| {
            let rows = corpus
                .documents
                .values()
                .map(|(row, _)| row.sequence.max(row.claimed));
            rows.max().unwrap_or(0).max(corpus.fence)
        };
        Ok(corpora.values().map(of_corpus).max().unwrap_or(0))
    }

    async fn all_corpora(&self) -> Result<Vec<(CorpusRef, CorpusEntry)>> {
        let corpora = self.locked();
        let active = corpora.iter().filter(|(_, corpus)| corpus.active);
        Ok(active
            .map(|(name, corpus)| (name.clone(), corpus.entry(name)))
            .collect())
    }

    async fn health(&self) -> Result<()> {
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
