//! ragbus: retrieval-augmented generation as a message-bus service.
//!
//! Modules stand in layer order; a module names only layers above it in this list. See `ARCHITECTURE.md`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

// L0: values and pure functions
pub mod error;
pub mod fusion;
pub mod model;
pub mod tenancy;
// L1: ports
pub mod spi;
// L3: adapters, each over one optional dependency
pub mod adapters;
#[cfg(feature = "testing")]
pub mod testing;
