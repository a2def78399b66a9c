//! The clustered vector store: collections on a Qdrant server, over gRPC. Made for servers from 1.19 on.
//!
//! **What lives where.** A collection carries in its own metadata what it was built with. Which generations of a corpus
//! live for a tenant stands in one small collection, `ragbus_meta`: a point per (tenant, corpus, generation) with a key
//! derived from the three, `live` or not. A corpus exists for a tenant because its mark says so, never because a
//! collection does; that also tells tenants apart that share a collection. Marks of dropped generations stay.
//!
//! **Why that is free of races.** The server applies operations on one point one after the other, and a condition is
//! judged when it is applied. `ensure` writes its mark last, on the condition that the stored one is not a dropped
//! one, and reads it back; a drop writes its mark first and without a condition. So whichever comes last, a dropped
//! generation stays dropped: an `ensure` that lost removes the collection it made. Between a drop's mark and its end,
//! and after a crash there, readers already see nothing and calling it again finishes it. A write that a drop overtakes in a shared collection is
//! taken back by its writer. What a worker leaves behind that is killed right there (an empty collection, points of a
//! dropped generation) is seen by nobody; dropping again removes it.
//!
//! **Writes** are conditional on the stored sequence, judged by the server in the order of its log; so a write that the
//! server has logged but not applied yet (`WaitTimeout`) cannot overtake, nor be overtaken by, what comes later.
//!
//! Nothing is kept in memory: several workers see each other's changes at once. Layer 3. Must not know who calls.

mod call;
mod collection;
mod config;
mod filter;
mod marks;
mod metadata;
mod payload;
mod query;
mod read;
mod schema;
mod store;
mod write;

pub use config::{HnswOptions, QdrantConfig, Quantization};
pub use store::QdrantVectorStore;
