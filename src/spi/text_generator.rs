//! Text from a language model. What comes back is data, never an instruction.

use std::fmt;
use std::time::Instant;

use async_trait::async_trait;

use crate::error::Result;

/// One request for a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// What the model is to do.
    pub instruction: String,
    /// What it is to do it with: the caller's text, apart from the instruction.
    pub input: String,
    /// The most tokens of the answer.
    pub max_tokens: u32,
    /// 0 = the likeliest answer; higher = more varied ones.
    pub temperature: f32,
    /// No answer after this is wanted.
    pub deadline: Instant,
}

/// A language model.
#[async_trait]
pub trait TextGenerator: Send + Sync + fmt::Debug {
    /// Names the model in records.
    fn id(&self) -> &str;

    /// Answers, raw: not cleaned, possibly blank.
    ///
    /// # Errors
    /// `Timeout`, `TooLarge` for an answer beyond what any `max_tokens` explains, `DependencyFailed` for the rest. Messages
    /// never quote the request or the answer.
    async fn generate(&self, request: Generation) -> Result<String>;
}
