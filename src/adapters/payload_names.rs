//! The names under which both Qdrant stores keep a point's fields: one layout, so that what is said of one holds for both.
//!
//! System fields stand flat under reserved names; caller metadata stands under one key of its own, so that no metadata
//! key can meet a system field. Must not know an engine.

pub(super) const TENANT: &str = "tenant";
pub(super) const DOCUMENT: &str = "document_id";
pub(super) const SEQUENCE: &str = "sequence";
pub(super) const METADATA: &str = "metadata";
pub(super) const ORDINAL: &str = "ordinal";
pub(super) const CONTENT: &str = "content";
pub(super) const HASH: &str = "content_hash";
pub(super) const SPAN_START: &str = "span_start";
pub(super) const SPAN_END: &str = "span_end";
pub(super) const EXPIRES: &str = "expires_at";
