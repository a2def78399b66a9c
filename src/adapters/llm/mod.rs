//! A language model behind an OpenAI-compatible chat endpoint.
//!
//! Layer 3, over the port of text generation. Must not know prompts or what texts are for.
//!
//! The client library logs answers it can't read and error texts of servers, and those may quote a caller's question. So a
//! service of our own stands between it and the network (`http.rs`): it hands on only answers that are whole, of sane size
//! and readable.

mod address;
mod generator;
mod http;

pub use address::check_endpoint;
pub use generator::{ChatConfig, ChatGenerator};
