//! What is made of tracked retrievals beyond counting.
//!
//! Layer 2. Must not know how they are stored.

mod clusters;

pub use clusters::{QueryCluster, query_clusters};
