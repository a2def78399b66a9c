//! Contract suites: one per port, run on the fake and on every real implementation, so that a fake can't drift.

pub mod cross_encoder;
pub mod encoders;
pub mod rebuilds;
pub mod registry;
pub mod tracker;
pub mod vector_store;
