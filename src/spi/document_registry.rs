//! The registry of documents: who wrote what version, and what is being served.
//!
//! Each method is one short transaction of the protocol in `ARCHITECTURE.md` (replace, delete, fence); the rules
//! themselves are `model::fencing`. No lock outlives a call.

use std::fmt;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::{
    CorpusName, CorpusRef, Decision, DocumentId, Finish, Hashes, IngestResult, Metadata, ModelPair,
    TenantId, Timestamp, Written,
};

/// What a transaction decided, with what clean-up and writing need to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    /// What to do.
    pub decision: Decision,
    /// The row's live sequence: older points have to go when the job ends.
    pub live: u64,
    /// The corpus' generation.
    pub generation: u32,
    /// What that is built with.
    pub models: ModelPair,
    /// Whether the store may still serve an older generation: a rebuild was switched to a moment ago.
    pub unserved: bool,
}

/// What step 4 decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Done, or start again.
    pub finish: Finish,
    /// The row's live sequence: older points have to go.
    pub live: u64,
}

/// A raised fence.
#[derive(Debug, Clone, PartialEq)]
pub struct Fenced {
    /// The result of this corpus deletion, the same at every delivery.
    pub result: IngestResult,
    /// The corpus' generation.
    pub generation: u32,
}

/// A document that a corpus deletion buried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buried {
    /// The row's live sequence: older points have to go.
    pub live: u64,
    /// The corpus' generation.
    pub generation: u32,
    /// As [`Begun::unserved`].
    pub unserved: bool,
}

/// A corpus as listed.
#[derive(Debug, Clone, PartialEq)]
pub struct CorpusEntry {
    /// The corpus.
    pub corpus: CorpusName,
    /// Documents that are not tombstones.
    pub documents: u64,
    /// Their chunks.
    pub chunks: u64,
    /// The generation.
    pub generation: u32,
    /// The dense model's id it was built with.
    pub dense_model: String,
    /// The sparse model's id it was built with.
    pub sparse_model: String,
}

/// A document as listed.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentEntry {
    /// The id.
    pub document_id: DocumentId,
    /// Newest finished job.
    pub sequence: u64,
    /// Sequence of the points being served.
    pub live: u64,
    /// Its chunks.
    pub chunks: u32,
    /// The corpus' generation.
    pub generation: u32,
    /// When the row last changed.
    pub updated_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// The document's own metadata.
    pub metadata: Metadata,
}

/// The registry. Errors: `DependencyFailed` when SQL fails.
#[async_trait]
pub trait DocumentRegistry: Send + Sync + fmt::Debug {
    /// The models that a corpus that exists is built with.
    async fn corpus_models(&self, corpus: &CorpusRef) -> Result<Option<ModelPair>>;

    /// Step 1 of a put. Creates corpus (with these models) and row if absent.
    async fn begin_put(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        hashes: &Hashes,
        models: &ModelPair,
        template: &IngestResult,
    ) -> Result<Begun>;

    /// Step 1 of a delete. Creates corpus and row if absent.
    async fn begin_delete(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        template: &IngestResult,
    ) -> Result<Begun>;

    /// Step 4 of a put.
    async fn finish_put(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        written: &Written,
    ) -> Result<Finished>;

    /// First transaction of a corpus deletion: raises the fence to the template's sequence (never lowers it), counts the
    /// chunks that go, and stores the result.
    async fn raise_fence(&self, corpus: &CorpusRef, template: &IngestResult) -> Result<Fenced>;

    /// Up to `limit` documents with a row not newer than `sequence`, by id after `after`.
    async fn documents_below(
        &self,
        corpus: &CorpusRef,
        sequence: u64,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentId>>;

    /// A corpus deletion meets one document; `None` when the row is newer.
    async fn fence_document(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        sequence: u64,
    ) -> Result<Option<Buried>>;

    /// Last transaction of a corpus deletion: raises the generation when no row and no claim is newer than `sequence`.
    /// Returns the newest generation that has to be dropped, also when an earlier delivery raised it; never one that a rebuild
    /// replaces, which its readers may still be in.
    async fn retire_generation(&self, corpus: &CorpusRef, sequence: u64) -> Result<Option<u32>>;

    /// Corpora of a tenant that exist, by name.
    async fn corpora(&self, tenant: &TenantId) -> Result<Vec<CorpusEntry>>;

    /// Documents of a tenant over all its corpora, tombstones left out; cheap enough to be asked before a put.
    async fn document_count(&self, tenant: &TenantId) -> Result<u64>;

    /// Documents of a corpus by id after `after`, tombstones left out.
    async fn documents(
        &self,
        corpus: &CorpusRef,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentEntry>>;

    /// One document; `None` when absent or a tombstone.
    async fn document(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
    ) -> Result<Option<DocumentEntry>>;

    /// The sequence of the points being served, of a tombstone too; 0 without a row.
    async fn live_sequence(&self, corpus: &CorpusRef, document: &DocumentId) -> Result<u64>;

    /// Notes that a redelivery of the job begins; returns how many began before and never ended in order: crashes.
    async fn job_started(&self, tenant: &TenantId, stream_sequence: u64) -> Result<u32>;

    /// Takes back one start: the job was given back in order.
    async fn job_given_back(&self, tenant: &TenantId, stream_sequence: u64) -> Result<()>;

    /// Forgets the job's starts: it has ended.
    async fn job_ended(&self, tenant: &TenantId, stream_sequence: u64) -> Result<()>;

    /// The highest sequence any row, claim or fence holds; 0 when there is none.
    async fn highest_sequence(&self) -> Result<u64>;

    /// Every corpus that exists for any tenant: an operator call, for the comparison at start.
    async fn all_corpora(&self) -> Result<Vec<(CorpusRef, CorpusEntry)>>;

    /// Whether SQL answers.
    async fn health(&self) -> Result<()>;

    /// Ends all connections; further calls fail. Idempotent.
    async fn close(&self) -> Result<()>;
}
