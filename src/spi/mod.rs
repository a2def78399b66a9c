//! The ports: what the use cases need, as object-safe traits with required methods only.
//!
//! Layer 1, over the values. Must not know any implementation.

mod document_parser;
mod document_registry;
mod encoder;
mod retriever;
mod vector_store;

pub use document_parser::{DocumentParser, ParsedDocument, TextKind};
pub use document_registry::{
    CorpusEntry, DeleteBegin, DocumentEntry, DocumentRegistry, FinishOutcome, PutBegin, PutFinish,
    Row,
};
pub use encoder::{
    DenseEncoder, Encoded, EncoderInfo, Priority, Role, SparseEncoder, TextEncoding, TokenCounter,
};
pub use retriever::{RequestContext, Retriever};
pub use vector_store::{
    CollectionInfo, FusionMethod, Hit, HybridQuery, LegQuery, LegVector, Point, StoreAnswer,
    VectorStore, Vectors,
};
