//! Ingest jobs and their outcome. Must not know how a job arrived or where its result goes.

use std::collections::BTreeMap;

use super::{CorpusRef, DocumentId, JobId, Metadata, Timestamp};
use crate::error::Error;

/// How a body is cut: at most `max_tokens` of the dense tokenizer a chunk, special tokens excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    /// The largest chunk in tokens.
    pub max_tokens: u32,
    /// Tokens that neighbouring chunks share.
    pub overlap_tokens: u32,
}

impl Default for Chunking {
    fn default() -> Self {
        Self {
            max_tokens: 200,
            overlap_tokens: 40,
        }
    }
}

/// The body of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum PutBody {
    /// Text.
    Text(String),
    /// Bytes, to be parsed by their media type.
    Data(Vec<u8>),
    /// Bytes that lie elsewhere, because they are too large for a message.
    Blob(BlobRef),
}

/// Where a body lies, and what it has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobRef {
    /// The bucket; the tenant's own.
    pub bucket: String,
    /// The object.
    pub name: String,
    /// Lower-case hexadecimal SHA-256 of the bytes.
    pub sha256: String,
    /// How many bytes.
    pub size: u64,
}

/// Put (replace) a document from its body.
#[derive(Debug, Clone, PartialEq)]
pub struct PutDocument {
    /// The document.
    pub document_id: DocumentId,
    /// The body.
    pub body: PutBody,
    /// IANA media type; empty = guess from the file name, else plain text.
    pub media_type: String,
    /// The file's name; only its ending is used.
    pub file_name: String,
    /// Metadata of every chunk.
    pub metadata: Metadata,
    /// When the document expires.
    pub expires_at: Option<Timestamp>,
    /// How to cut it.
    pub chunking: Chunking,
}

/// One chunk as a caller cut it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkInput {
    /// The text, not blank.
    pub content: String,
    /// The chunk's own metadata; wins over the document's.
    pub metadata: Metadata,
}

/// Put (replace) a document from chunks that the caller cut; never split again.
#[derive(Debug, Clone, PartialEq)]
pub struct PutChunks {
    /// The document.
    pub document_id: DocumentId,
    /// The chunks; none = an empty document.
    pub chunks: Vec<ChunkInput>,
    /// Metadata of every chunk.
    pub metadata: Metadata,
    /// When the document expires.
    pub expires_at: Option<Timestamp>,
}

/// What a job does.
#[derive(Debug, Clone, PartialEq)]
pub enum IngestOperation {
    /// Replace a document by a body.
    PutDocument(PutDocument),
    /// Replace a document by chunks.
    PutChunks(PutChunks),
    /// Delete a document.
    DeleteDocument(DocumentId),
    /// Delete every document of the corpus.
    DeleteCorpus,
}

impl IngestOperation {
    /// The document it is about; none for a whole corpus.
    pub fn document_id(&self) -> Option<&DocumentId> {
        match self {
            IngestOperation::PutDocument(put) => Some(&put.document_id),
            IngestOperation::PutChunks(put) => Some(&put.document_id),
            IngestOperation::DeleteDocument(id) => Some(id),
            IngestOperation::DeleteCorpus => None,
        }
    }
}

/// One ingest message, decoded and validated.
#[derive(Debug, Clone, PartialEq)]
pub struct IngestJob {
    /// The job's name.
    pub job_id: JobId,
    /// Where it acts; the tenant is the subject's.
    pub corpus: CorpusRef,
    /// Its version: the stream sequence (a replay's origin when that is lower).
    pub sequence: u64,
    /// The delivery count, from 1.
    pub attempt: u32,
    /// What to do.
    pub operation: IngestOperation,
}

impl IngestJob {
    /// This job's result with everything but its outcome.
    pub fn template(&self) -> IngestResult {
        let document = self.operation.document_id().map(DocumentId::as_str);
        IngestResult {
            job_id: self.job_id.as_str().to_owned(),
            corpus: self.corpus.corpus.as_str().to_owned(),
            document_id: document.unwrap_or_default().to_owned(),
            status: IngestStatus::Indexed,
            sequence: self.sequence,
            chunks: 0,
            chunks_deleted: 0,
            truncated_tokens: 0,
            warnings: Vec::new(),
            error: None,
            timings: BTreeMap::new(),
            attempt: self.attempt,
        }
    }
}

/// The three hashes that decide whether a put changes anything; lower-case hexadecimal SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hashes {
    /// Body, media type, file name, chunking.
    pub content: String,
    /// Metadata and expiry.
    pub metadata: String,
    /// Chunker and model ids.
    pub pipeline: String,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IngestStatus {
    /// Embedded and stored.
    Indexed,
    /// Stored again with new metadata, vectors kept.
    MetadataUpdated,
    /// Nothing differed.
    Unchanged,
    /// A newer job won.
    Superseded,
    /// Deleted (or already absent).
    Deleted,
    /// It failed for good.
    Failed,
}

/// An error as it stands in a result.
#[derive(Debug, Clone, PartialEq)]
pub struct JobError {
    /// The wire name of the kind.
    pub kind: String,
    /// What went wrong, without document text.
    pub message: String,
    /// The stage it went wrong in.
    pub stage: String,
    /// The invalid field, when one is.
    pub field: String,
    /// Whether sending the job again can help.
    pub retryable: bool,
}

impl From<&Error> for JobError {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind().name().to_owned(),
            message: error.message().to_owned(),
            stage: error.stage().unwrap_or_default().to_owned(),
            field: error.field().unwrap_or_default().to_owned(),
            retryable: error.kind().is_retryable(),
        }
    }
}

/// The outcome of a job, published once per delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct IngestResult {
    /// The job.
    pub job_id: String,
    /// The corpus; empty when the job could not be decoded.
    pub corpus: String,
    /// The document; empty for a corpus or an undecodable job.
    pub document_id: String,
    /// How it ended.
    pub status: IngestStatus,
    /// The job's sequence.
    pub sequence: u64,
    /// Chunks of the document now.
    pub chunks: u32,
    /// Chunks this job removed.
    pub chunks_deleted: u32,
    /// Tokens cut off because a chunk was longer than the model.
    pub truncated_tokens: u32,
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// Why it failed.
    pub error: Option<JobError>,
    /// Milliseconds by stage.
    pub timings: BTreeMap<String, f64>,
    /// The delivery count, from 1.
    pub attempt: u32,
}
