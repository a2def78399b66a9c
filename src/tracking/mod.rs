//! What is made of tracked retrievals beyond counting.
//!
//! Layer 2. Must not know how they are stored.

mod clusters;
mod timeline;
mod unretrieved;

pub use clusters::{QueryCluster, query_clusters};
pub use timeline::timeline;
pub use unretrieved::{UnretrievedPage, unretrieved_documents};
