//! The registry of documents: who wrote what version, and what is being served.
//!
//! Each method is one short transaction of the protocol in `ARCHITECTURE.md` (replace, delete, fence). No lock outlives a call.

use std::fmt;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::{
    CorpusName, CorpusRef, DocumentId, Hashes, IngestResult, TenantId, Timestamp,
};

/// A document's row, as far as the protocol needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Newest finished job.
    pub sequence: u64,
    /// Newest started write.
    pub claimed: u64,
    /// Sequence of the points being served.
    pub live: u64,
    /// Chunks of the document now.
    pub chunks: u32,
    /// Whether it is a tombstone.
    pub deleted: bool,
}

/// What step 1 decided about a put. Each outcome carries the corpus' generation where work follows.
#[derive(Debug, Clone, PartialEq)]
pub enum PutBegin {
    /// A newer job or the corpus' fence won; clean up below `live`.
    Superseded {
        /// The row's live sequence.
        live: u64,
        /// The corpus' generation.
        generation: u32,
    },
    /// This very job has finished before; say the same again, and clean up below `live`.
    Repeated {
        /// The stored result.
        result: Box<IngestResult>,
        /// The row's live sequence.
        live: u64,
        /// The corpus' generation.
        generation: u32,
    },
    /// Nothing differs; the row's sequence is now this job's.
    Unchanged {
        /// Chunks of the document.
        chunks: u32,
        /// The row's live sequence.
        live: u64,
        /// The corpus' generation.
        generation: u32,
    },
    /// Only metadata differs: a full write that may keep the vectors of `live`. The write is claimed.
    MetadataOnly {
        /// Sequence of the points whose vectors can be kept.
        live: u64,
        /// Chunks of the document.
        chunks: u32,
        /// The corpus' generation.
        generation: u32,
    },
    /// A full write. The write is claimed.
    Write {
        /// The corpus' generation.
        generation: u32,
    },
}

/// What step 1 decided about a delete.
#[derive(Debug, Clone, PartialEq)]
pub enum DeleteBegin {
    /// A newer job or the corpus' fence won.
    Superseded {
        /// The row's live sequence.
        live: u64,
        /// The corpus' generation.
        generation: u32,
    },
    /// This very job has finished before.
    Repeated {
        /// The stored result.
        result: Box<IngestResult>,
        /// The row's live sequence.
        live: u64,
        /// The corpus' generation.
        generation: u32,
    },
    /// The document is a tombstone now; delete points below `live`.
    Deleted {
        /// The row's live sequence: this job's.
        live: u64,
        /// Chunks it had.
        chunks: u32,
        /// The corpus' generation.
        generation: u32,
    },
}

/// What a finished write tells the registry in step 4.
#[derive(Debug, Clone, PartialEq)]
pub struct PutFinish {
    /// The job's sequence.
    pub sequence: u64,
    /// The generation the points were written to.
    pub generation: u32,
    /// The hashes of what was written.
    pub hashes: Hashes,
    /// Chunks of the document now.
    pub chunks: u32,
    /// When the document expires.
    pub expires_at: Option<Timestamp>,
    /// The result to store (`chunksDeleted` is not known yet and stays 0 in it).
    pub result: IngestResult,
}

/// What step 4 decided.
#[derive(Debug, Clone, PartialEq)]
pub enum FinishOutcome {
    /// The points are live.
    Committed,
    /// A newer job or the fence won; clean up below `live`.
    Superseded {
        /// The row's live sequence.
        live: u64,
    },
    /// Another delivery of this very job finished first; say the same, and clean up below `live`.
    Repeated {
        /// The stored result.
        result: Box<IngestResult>,
        /// The row's live sequence.
        live: u64,
    },
    /// The corpus has another generation now: start again.
    GenerationChanged,
}

/// A corpus as listed.
#[derive(Debug, Clone, PartialEq)]
pub struct CorpusEntry {
    /// The name.
    pub corpus: CorpusName,
    /// Documents that are not tombstones.
    pub documents: u64,
    /// Their chunks.
    pub chunks: u64,
    /// The generation.
    pub generation: u32,
    /// The model ids it was built with, as `(dense, sparse)`.
    pub models: (String, String),
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
    /// When the row last changed.
    pub updated_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// The registry. Errors: `DependencyFailed` when SQL fails.
#[async_trait]
pub trait DocumentRegistry: Send + Sync + fmt::Debug {
    /// Step 1 of a put. Creates corpus (with these model ids) and row if absent.
    async fn begin_put(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        sequence: u64,
        hashes: &Hashes,
        models: (&str, &str),
    ) -> Result<PutBegin>;

    /// Step 1 of an UNCHANGED put and of a delete store `result` with the row, so that a second delivery says the same.
    /// Does nothing when the row's sequence is no longer this job's.
    async fn store_result(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        result: &IngestResult,
    ) -> Result<()>;

    /// Step 1 of a delete. Creates the row if absent.
    async fn begin_delete(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        sequence: u64,
    ) -> Result<DeleteBegin>;

    /// Step 4 of a put.
    async fn finish_put(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        finish: &PutFinish,
    ) -> Result<FinishOutcome>;

    /// The row of a document, tombstones included.
    async fn row(&self, corpus: &CorpusRef, document: &DocumentId) -> Result<Option<Row>>;

    /// Raises the corpus' fence to `sequence` (never lowers it). Returns the generation, `None` when the corpus has no row at all.
    async fn raise_fence(&self, corpus: &CorpusRef, sequence: u64) -> Result<Option<u32>>;

    /// Up to `limit` documents, by id after `after`, whose sequence is older than `sequence` or whose points may still
    /// have to go (tombstones of exactly `sequence`).
    async fn documents_to_fence(
        &self,
        corpus: &CorpusRef,
        sequence: u64,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentId>>;

    /// Raises the generation when every row is a tombstone not newer than `sequence`; returns the generation that may be dropped.
    async fn retire_generation(&self, corpus: &CorpusRef, sequence: u64) -> Result<Option<u32>>;

    /// The stored result of a corpus deletion at exactly this sequence.
    async fn corpus_result(&self, corpus: &CorpusRef, sequence: u64)
    -> Result<Option<IngestResult>>;

    /// Stores the result of a corpus deletion; a newer one is not overwritten.
    async fn store_corpus_result(&self, corpus: &CorpusRef, result: &IngestResult) -> Result<()>;

    /// Corpora of a tenant that have documents, by name.
    async fn corpora(&self, tenant: &TenantId) -> Result<Vec<CorpusEntry>>;

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

    /// The highest sequence any row or fence holds; 0 when there is none.
    async fn highest_sequence(&self) -> Result<u64>;

    /// Every corpus that exists for any tenant, with its generation and live chunks: an operator call, for the comparison at start.
    async fn all_corpora(&self) -> Result<Vec<(CorpusRef, u32, u64)>>;

    /// Whether SQL answers.
    async fn health(&self) -> Result<()>;
}
