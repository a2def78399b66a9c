//! The two stages that read chunks with a cross-encoder, corrective grading and reranking, over one way of scoring.
//!
//! Layer 2, over the values and the ports. Must not know a model's technology, or the other stages.
//!
//! Three fields of a chunk serve three purposes, and none is ever inferred from another: `scored` hands a score on with what
//! it was computed for, `vector_similarity` preserves what a probability replaced, `reranked` guards against reordering twice.

mod corrective;
mod promotion;
mod reranking;
mod scoring;

pub use corrective::{CorrectiveConfig, CorrectiveRetriever};
pub use reranking::{RerankingConfig, RerankingRetriever};
pub use scoring::PairScorer;
