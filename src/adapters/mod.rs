//! The adapters: each implements ports with one optional dependency. Layer 3.
//!
//! One dependency, one feature, one module. An adapter must not know another adapter or any use case.

#[cfg(feature = "edge")]
pub mod edge;
