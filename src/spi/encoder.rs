//! Text encoders. A batch is the primitive; a bad text fails alone.

use std::fmt;
use std::time::Instant;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::SparseVector;

/// What a text is to the model: prefixes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A question.
    Query,
    /// A chunk.
    Document,
}

/// Who waits: interactive work goes before bulk work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Priority {
    /// A caller waits for a reply.
    Interactive,
    /// Ingest.
    Bulk,
}

/// One call to an encoder.
#[derive(Debug, Clone)]
pub struct TextEncoding {
    /// The texts.
    pub texts: Vec<String>,
    /// What they are.
    pub role: Role,
    /// Who waits.
    pub priority: Priority,
    /// Work not started by then is dropped with `Timeout`.
    pub deadline: Option<Instant>,
}

/// An encoded text.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded<V> {
    /// The vector.
    pub vector: V,
    /// Tokens that were run, special tokens included.
    pub tokens: u32,
    /// Tokens that were cut off because the text was longer than the model.
    pub truncated: u32,
    /// Tokens the vocabulary doesn't know.
    pub unknown: u32,
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncoderInfo {
    /// The model's id.
    pub id: String,
    /// Width: dense dimension or vocabulary size.
    pub dimension: u32,
    /// Longest input in tokens, special tokens included.
    pub max_tokens: u32,
    /// Special tokens the model adds to one text.
    pub special_tokens: u32,
}

/// Texts to dense vectors of `dimension`, normalised.
#[async_trait]
pub trait DenseEncoder: Send + Sync + fmt::Debug {
    /// The model.
    fn info(&self) -> &EncoderInfo;

    /// Encodes texts; one result per text, in order.
    ///
    /// # Errors
    /// The outer error (`Overloaded`, `Draining`) is about the whole call; an inner one about one text
    /// (`Timeout`, `DependencyFailed`, `Internal` for non-finite output).
    async fn encode_dense(&self, request: TextEncoding) -> Result<Vec<Result<Encoded<Vec<f32>>>>>;
}

/// Texts to sparse vectors; a vector may be empty.
#[async_trait]
pub trait SparseEncoder: Send + Sync + fmt::Debug {
    /// The model.
    fn info(&self) -> &EncoderInfo;

    /// Encodes texts; one result per text, in order.
    ///
    /// # Errors
    /// As [`DenseEncoder::encode_dense`].
    async fn encode_sparse(
        &self,
        request: TextEncoding,
    ) -> Result<Vec<Result<Encoded<SparseVector>>>>;
}

/// Counts tokens as the dense model does, special tokens excluded. Synchronous: call it off the async threads.
///
/// The count of a text is the sum of its words' counts: no token of a model spans white space.
pub trait TokenCounter: Send + Sync + fmt::Debug {
    /// Tokens of the text; 0 when it can't be tokenised.
    fn count(&self, text: &str) -> usize;
}
