//! Text encoders and cross-encoders on ONNX Runtime, in process.
//!
//! Layer 3, over the values and the encoder ports. Must not know stages, stores or the wire.
//!
//! One [`InferencePool`] is the whole process's budget of inference threads. Each of its OS threads owns one
//! single-threaded session of every model; all models share two queues, interactive before bulk. A text's way:
//!
//! ```text
//! port ── admission (queue room) ── tokenizer (blocking thread) ── scheduler ── worker thread ── reply
//! encoders.rs        intake.rs            call.rs, tokenize.rs     scheduler.rs     worker.rs
//! cross_encoder.rs
//! ```
//!
//! What a model is, is read from its folder (`manifest.rs`), and whether its files are still what was pulled
//! (`checksums.rs`); how its graph is run, is in `engine.rs`; what its output means, is in `output.rs`. A pair is one
//! text of the queue: documents are tokenised against their call's query, and priorities, deadlines, room and
//! cancellation are those of every other text.

mod calibration_table;
mod call;
mod checksums;
mod cross_encoder;
mod encoders;
mod engine;
mod framing;
mod intake;
mod manifest;
mod manifest_file;
mod output;
mod pool;
mod pool_config;
mod runtime;
mod scheduler;
mod stats;
mod tokenize;
mod worker;

pub use checksums::Checksums;
pub use cross_encoder::OnnxCrossEncoder;
pub use encoders::{OnnxDenseEncoder, OnnxSparseEncoder, OnnxTokenCounter};
pub use manifest::{DensePooling, ModelFolder, PairActivation, SparseActivation, Task};
pub use pool::InferencePool;
pub use pool_config::InferenceConfig;
pub use runtime::OnnxRuntime;
pub use stats::{InferenceStats, ModelStats};
