//! Retrieval: hybrid search, the stack of stages around it and the last cuts.
//!
//! Layer 2, over the values and the ports. Must not know a store's or a model's technology, or what a stage does.

mod cuts;
mod hybrid;
mod legs;
mod pipeline;
mod query_vectors;
mod ranking;
mod stack;

pub use hybrid::{HybridConfig, HybridParts, HybridRetriever};
pub use pipeline::{RetrievalPipeline, StageFactories, StageFactory};
pub use stack::{Layer, RetrieverStack, StackSwitches};
