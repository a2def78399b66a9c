//! Implementations of the ports: one optional dependency, one feature, one module.
//!
//! Layer 3. An adapter sees the values, the ports and its own dependency; never another adapter.

#[cfg(feature = "onnx")]
pub mod onnx;
