//! Text encoders on ONNX Runtime, in process.
//!
//! Layer 3, over the values and the encoder ports. Must not know stages, stores or the wire.
//!
//! One [`InferencePool`] is the whole process's budget of inference threads. Each of its OS threads owns one
//! single-threaded session of every model; all models share two queues, interactive before bulk. A text's way:
//!
//! ```text
//! encoder ── admission (queue room) ── tokenizer (blocking thread) ── scheduler ── worker thread ── reply
//!  encoders.rs          intake.rs            tokenize.rs             scheduler.rs     worker.rs
//! ```
//!
//! What a model is, is read from its folder (`manifest.rs`); how its graph is run, is in `engine.rs`; what its
//! output means, is in `output.rs`. A further task (scoring pairs) is a new variant of [`Task`], a reading of the
//! output and a port over the same intake.

mod encoders;
mod engine;
mod intake;
mod manifest;
mod output;
mod pool;
mod runtime;
mod scheduler;
mod stats;
mod tokenize;
mod worker;

pub use encoders::{OnnxDenseEncoder, OnnxSparseEncoder, OnnxTokenCounter};
pub use manifest::{DensePooling, ModelFolder, SparseActivation, Task};
pub use pool::{InferenceConfig, InferencePool};
pub use runtime::OnnxRuntime;
pub use stats::{InferenceStats, ModelStats};
