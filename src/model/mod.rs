//! The values ragbus is about: tenants, corpora, documents, chunks, queries, scores, jobs.
//!
//! Layer 0. Knows the standard library only: no serialisation, no I/O, no wire or store types.

mod calibration;
mod chunk;
mod fencing;
mod filter;
mod ids;
mod job;
mod limits;
mod metadata;
mod names;
mod options;
mod query;
mod retention;
mod retrieval;
mod retrieval_id;
mod schema;
mod score;
mod time;
mod tracking;
mod tracking_stats;
mod tracking_window;

pub use calibration::{Calibration, Calibrations};
pub use chunk::{Chunk, ChunkId, Span, StoredChunk};
pub use fencing::{
    Decision, DocumentRow, Finish, Written, begin_delete, begin_put, expire_document,
    fence_document, finish_put,
};
pub use filter::{
    Bound, Filter, FilterValue, MAX_FILTER_DEPTH, MAX_FILTER_NODES, MAX_IN_VALUES, Range,
};
pub use ids::{CorpusName, CorpusRef, DocumentId, JobId, RequestId, TenantId, is_slug};
pub use job::{
    BlobRef, ChunkInput, Chunking, Hashes, IngestJob, IngestOperation, IngestResult, IngestStatus,
    JobError, PutBody, PutChunks, PutDocument,
};
pub use limits::{LimitBook, TenantLimits};
pub use metadata::{
    MAX_EXACT_INTEGER, MAX_METADATA_BYTES, MAX_METADATA_KEYS, Metadata, MetadataValue,
};
pub use options::{CorrectiveMode, FusionWeights, Include, RerankAgainst, RetrievalOptions};
pub use query::{ExpansionOptions, ExpansionStrategy, Origin, QueryText};
pub use retention::{
    AdminAct, Hold, HoldScope, RetentionWindows, Run, RunCounts, RunOrder, RunState, cutoff,
};
pub use retrieval::{
    Gradings, Outcome, Retrieval, RetrievalQuality, RetrievalRequest, RetrievedChunk, StageName,
    StageReport,
};
pub use retrieval_id::RetrievalId;
pub use schema::{CollectionSchema, Distance, ModelIds, ModelPair, SCHEMA_VERSION};
pub use score::{Grade, Leg, LegSignal, ScoreKind, Scored, Signals, SparseVector};
pub use time::Timestamp;
pub use tracking::{
    ChunkFate, Feedback, FeedbackOutcome, FeedbackReceipt, RetrievalRecord, TrackedChunk,
    TrackedEnd, TrackedQuery,
};
pub use tracking_stats::{
    DocumentSelection, DocumentStats, FeedbackCounts, LatencyStats, MeanScores, PoorJudgement,
    QueryDocuments, QuerySelection, QueryStats, TrackingTotals,
};
pub use tracking_window::{
    JudgedQuery, PurgeBatch, PurgeForecast, PurgeScope, RecordPosition, TimeWindow, TrackingCounts,
};
