//! Retrieval: hybrid search and the stack of stages around it.
//!
//! Layer 2, over the values and the ports. Must not know a store's or a model's technology.

mod hybrid;
mod legs;
mod ranking;
mod stack;

pub use hybrid::{HybridConfig, HybridParts, HybridRetriever};
pub use stack::{Layer, RetrieverStack, StackSwitches};
