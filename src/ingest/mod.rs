//! Ingest: one job through parse, cut, embed, store and commit, fenced by its sequence.
//!
//! Layer 2, over the values and the ports. Must not know how a job arrives, or where its result goes.

mod chunking;
mod consistency;
mod deleting;
mod document_limit;
mod forgetting;
mod hashing;
mod identity;
mod points;
mod processor;
mod rebuilding;

pub use chunking::{CHUNKER_VERSION, cut};
pub use consistency::{ConsistencyParts, CorpusCheck, DamagedDocument};
pub use forgetting::{Forgetter, Forgotten};
pub use hashing::{content_hash, sha256_hex};
pub use identity::chunk_id;
pub use processor::{IngestParts, IngestProcessor, NoObserver};
pub use rebuilding::{RebuildParts, RebuildStatus, Rebuilder};
