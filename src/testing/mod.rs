//! In-memory ports and contract suites, behind the feature `testing`. Must not know an adapter.

pub mod contract;
pub mod filter_eval;
mod memory_score;
mod memory_store;

pub use memory_store::MemoryVectorStore;
