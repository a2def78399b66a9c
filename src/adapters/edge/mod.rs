//! The embedded vector store: Qdrant Edge shards in this process, over `qdrant-edge` 0.7.2.
//!
//! Layout under the configured folder: `collections/<name>/` holds `ragbus.json` and the shard, `aliases/<tenant>/
//! <corpus>.json` says which generations live. Creation writes the collection first and the alias last, a drop the
//! alias first: at every moment in between, and after `kill -9`, a reader sees all of it or nothing.
//!
//! What the engine lacks is made here: durability (group commit, a journal beside optimisations), trimming of logs
//! (copies), isolation from its panics, closing of idle shards. Layer 3. Must not know who calls.

mod apply;
mod catalog;
mod compact;
mod config;
mod engine;
mod files;
mod filter;
mod inner;
mod journal;
mod meta;
mod payload;
mod query;
mod read;
mod shard;
mod store;
mod upkeep;
mod writer;

pub use config::EdgeConfig;
pub use store::{CollectionStats, EdgeVectorStore};
