//! Transports. Today there is one.
//!
//! Layer 4.

pub mod nats;
