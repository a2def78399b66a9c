//! Adapters: one dependency, one feature, one module.
//!
//! Layer 3. An adapter sees the values, the ports and its own dependency, never another adapter.

#[cfg(feature = "edge")]
pub mod edge;
pub mod lexical;
#[cfg(feature = "llm")]
pub mod llm;
#[cfg(feature = "sqlite")]
mod metadata_json;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod parse;
#[cfg(any(feature = "edge", feature = "qdrant"))]
mod payload_names;
#[cfg(feature = "qdrant")]
pub mod qdrant;
#[cfg(feature = "sqlite")]
mod result_json;
#[cfg(feature = "sqlite")]
pub mod sqlite;
