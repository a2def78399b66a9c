//! The ports: what the use cases need, as object-safe traits with required methods only.
//!
//! Layer 1, over the values. Must not know any implementation.

mod blob_store;
mod context;
mod cross_encoder;
mod document_parser;
mod document_registry;
mod encoder;
mod ingest_steps;
mod lexical_encoder;
mod model_set;
mod query_expander;
mod rebuild_registry;
mod retention_registry;
mod retrieval_analysis;
mod retrieval_tracker;
mod retriever;
mod text_generator;
mod trail;
mod vector_checks;
mod vector_store;

pub use blob_store::BlobStore;
pub use context::{ChunkVersion, Memo, PairBudget, PairScores, RequestContext, RequestMemo};
pub use cross_encoder::{CrossEncoder, CrossEncoderInfo, PairScore, PairScoring};
pub use document_parser::{DocumentParser, OffsetMap, ParsedDocument, TextKind};
pub use document_registry::{
    Begun, Buried, CorpusEntry, DocumentEntry, DocumentRegistry, Fenced, Finished,
};
pub use encoder::{
    DenseEncoder, Encoded, EncoderInfo, Priority, Role, SparseEncoder, TextEncoding, TokenCounter,
};
pub use ingest_steps::{IngestStep, StepObserver};
pub use lexical_encoder::LexicalEncoder;
pub use model_set::{ModelSet, ModelSets};
pub use query_expander::{Expanded, QueryExpander};
pub use rebuild_registry::{
    Rebuild, RebuildProgress, RebuildRegistry, RebuildState, Switch, Unbuilt,
};
pub use retention_registry::{JobHorizon, JobSource, Ledger, RetentionRegistry};
pub use retrieval_analysis::RetrievalAnalysis;
pub use retrieval_tracker::{PURGE_BATCH, RetrievalTracker};
pub use retriever::Retriever;
pub use text_generator::{Generation, TextGenerator};
pub use trail::{Finding, Trail, tracked_chunk};
pub use vector_checks::{check_leg, check_points};
pub use vector_store::{
    CollectionInfo, FusionMethod, Hit, HybridQuery, LegQuery, LegVector, Point, StoreAnswer,
    VectorStore, Vectors,
};
