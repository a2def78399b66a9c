//! What tests of this crate and of its users need: fakes, faulty wrappers, contract suites.
//!
//! Over the values and the ports. Must not know any adapter.

mod abort_at;
pub mod contract;
pub mod encoders;
pub mod filter_eval;
mod memory_score;
mod memory_store;

pub use abort_at::AbortAt;
pub use memory_store::MemoryVectorStore;
