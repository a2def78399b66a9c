//! The wire: generated messages, their two encodings, and the only conversions to and from the model.
//!
//! Layer 4. Must not know NATS: it turns bytes into values and back.

mod audit;
mod catalog;
mod cursors;
mod encoding;
mod errors;
mod feedback;
mod filter;
mod fusion_options;
mod ingest;
mod ingest_result;
mod json_error;
mod metadata;
mod options;
mod reply;
mod retrieve;
mod stats;
mod stats_reply;
mod stats_thresholds;
mod timestamp;
mod tracked_options;
mod tracked_values;
mod tracking;

/// The generated messages of `schemas/ragbus/v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/ragbus.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/ragbus.v1.serde.rs"));
}

pub use audit::{AuditQuestion, audit_record, decode_audit};
pub use catalog::{CatalogQuestion, DEFAULT_PAGE_SIZE, Page, cursor_after, decode_catalog};
pub use cursors::{judgement_cursor, record_cursor};
pub use encoding::{Encoding, decode, encode};
pub use errors::error_response;
pub use feedback::decode_feedback;
pub use ingest::{DecodedIngest, IngestLimits, Names, decode_ingest};
pub use ingest_result::{ingest_result, job_result};
pub use metadata::struct_of;
pub use options::{EXPANSION_STRATEGY, RetrieveRules};
pub use reply::{encode_within, models_of, retrieve_response};
pub use retrieve::{DEFAULT_LIMIT, MAX_LIMIT, MAX_QUERY_BYTES, decode_retrieve};
pub use stats::{JudgementPage, StatsQuestion, StatsView, decode_stats};
pub use stats_reply::{
    corpus_totals, document_use, encode_rows, judgement, latency, query_cluster, query_use,
    time_slice, unretrieved,
};
pub use timestamp::WireTimestamp;
pub use tracked_options::options_json;
pub use tracking::{event_size, record_of, retrieval_recorded};

/// The newest schema version this build understands (`Rag-Schema`).
pub const WIRE_SCHEMA: u32 = 1;
