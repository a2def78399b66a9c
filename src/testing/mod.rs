//! What tests of this crate and of its users need: fakes, faulty wrappers, contract suites.
//!
//! Over the values and the ports. Must not know any adapter.

mod abort_at;
pub mod contract;
mod cross_encoder;
pub mod encoders;
mod faulty_cross_encoder;
mod faulty_store;
pub mod filter_eval;
mod lexical;
mod memory_blobs;
mod memory_rebuilds;
mod memory_registry;
mod memory_score;
mod memory_store;
mod memory_tracker;
mod models;
mod retrievers;

pub use abort_at::AbortAt;
pub use cross_encoder::{HashCrossEncoder, ScriptedCrossEncoder};
pub use faulty_cross_encoder::{FaultyCrossEncoder, PairFault};
pub use faulty_store::{FaultyStore, WriteFault};
pub use lexical::HashLexicalEncoder;
pub use memory_blobs::MemoryBlobStore;
pub use memory_registry::MemoryRegistry;
pub use memory_store::MemoryVectorStore;
pub use memory_tracker::MemoryTracker;
pub use models::{hash_models, hash_set, hash_set_over};
pub use retrievers::InMemoryRetriever;
