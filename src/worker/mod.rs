//! A worker in service: its roles, and the order in which it starts and ends.
//!
//! Layer 4. Must not know which adapters it was given.

mod rebuilding;
mod retention;
mod runtime;
mod tracking;

pub use runtime::{Role, WorkerParts, serve};
pub use tracking::TrackingParts;
