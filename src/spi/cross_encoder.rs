//! Scoring of (query, document) pairs. A batch is the primitive; a bad pair fails alone.

use std::fmt;
use std::time::Instant;

use async_trait::async_trait;

use super::Priority;
use crate::error::Result;
use crate::model::Calibrations;

/// One call to a cross-encoder: every document is paired with the query.
#[derive(Debug, Clone)]
pub struct PairScoring {
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// Who waits.
    pub priority: Priority,
    /// Work not started by then is dropped with `Timeout`.
    pub deadline: Option<Instant>,
}

/// A scored pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairScore {
    /// The model's raw output, finite.
    pub logit: f32,
    /// Tokens that were run, special tokens included.
    pub tokens: u32,
    /// Tokens of the document that were cut off; a query is never cut.
    pub truncated: u32,
}

/// What is known of a cross-encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossEncoderInfo {
    /// The model's id.
    pub id: String,
    /// Longest pair in tokens, special tokens included.
    pub max_tokens: u32,
    /// How its raw outputs are read.
    pub calibrations: Calibrations,
}

/// Pairs to one raw score each.
#[async_trait]
pub trait CrossEncoder: Send + Sync + fmt::Debug {
    /// The model.
    fn info(&self) -> &CrossEncoderInfo;

    /// Scores pairs; one result per document, in order.
    ///
    /// # Errors
    /// The outer error (`Overloaded`, `Draining`) is about the whole call; an inner one about one pair
    /// (`Timeout`, `DependencyFailed`, `Internal` for non-finite output, `InvalidField` on `query` when the query alone is
    /// longer than the model).
    async fn score_pairs(&self, request: PairScoring) -> Result<Vec<Result<PairScore>>>;
}
