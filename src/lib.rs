//! ragbus: retrieval-augmented generation as a message-bus service.
//!
//! Modules stand in layer order; a module names only layers above it in this list. See `ARCHITECTURE.md`.

#![warn(missing_docs, unreachable_pub, clippy::unwrap_used)]

// L0: values and pure functions
pub mod error;
pub mod fusion;
pub mod model;
pub mod tenancy;
// L1: ports
pub mod spi;
// L2: use cases
pub mod crossencoder;
pub mod evaluation;
pub mod expansion;
pub mod ingest;
pub mod retention;
pub mod retrieval;
pub mod tracking;
// L3: adapters
pub mod adapters;
// L4: the edge
pub mod config;
pub mod telemetry;
pub mod transport;
pub mod wire;
pub mod worker;
// The composition root sees everything
pub mod app;
pub mod cli;
// In-memory ports, contract suites, scripted and faulty wrappers
#[cfg(feature = "testing")]
pub mod testing;
