//! Retrievals as they are kept: the stage that tells what was found, the record made of it, and what is made of records
//! beyond counting.
//!
//! Layer 2. Must not know how records travel or where they are stored.

mod clusters;
mod hashing;
mod record;
mod shortening;
mod stage;
mod timeline;
mod unretrieved;

pub use clusters::{QueryCluster, query_clusters};
pub use hashing::QueryHasher;
pub use record::{Asked, MAX_DROPPED, record};
pub use shortening::{SHORTENED, shortened};
pub use stage::TrackingRetriever;
pub use timeline::timeline;
pub use unretrieved::{UnretrievedPage, unretrieved_documents};
