//! The expansion stage: several queries for one question, each through its own inner stages, merged by rank.
//!
//! Layer 2, over the values and the ports. Must not know a language model's technology, or the other stages.

mod answer;
mod likeness;
mod merge;
mod prompts;
mod stage;
mod strategies;

pub use stage::{ExpansionConfig, ExpansionRetriever};
pub use strategies::StrategyExpander;
