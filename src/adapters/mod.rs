//! Adapters: one dependency, one feature, one module.
//!
//! Layer 3. An adapter sees the values, the ports and its own dependency, never another adapter.

#[cfg(feature = "edge")]
pub mod edge;
#[cfg(any(feature = "hub", feature = "onnx"))]
mod file_digest;
#[cfg(feature = "hub")]
pub mod hub;
pub mod lexical;
#[cfg(feature = "llm")]
pub mod llm;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod metadata_json;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod parse;
#[cfg(any(feature = "edge", feature = "qdrant"))]
mod payload_names;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "qdrant")]
pub mod qdrant;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod rebuild_statements;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod registry_rows;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod registry_rules;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod registry_statements;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod result_json;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod retention_sql;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod retention_statements;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod tracker_analysis;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod tracker_analysis_sql;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod tracker_json;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod tracker_purging;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod tracker_readers;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod tracker_rows;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod tracker_sql;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod tracker_statements;
