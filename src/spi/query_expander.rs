//! From one query to several.

use std::fmt;
use std::time::Instant;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::{ExpansionOptions, QueryText};

/// What became of a query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expanded {
    /// The queries to ask. The original need not be among them: the stage sees to that.
    pub queries: Vec<QueryText>,
    /// Texts a language model was asked for.
    pub model_calls: u32,
    /// Whether fewer queries came out than were wanted.
    pub degraded: bool,
}

/// Writes further queries for a question.
#[async_trait]
pub trait QueryExpander: Send + Sync + fmt::Debug {
    /// Expands a query. Ends by `deadline`.
    ///
    /// # Errors
    /// `Timeout`, `DependencyFailed`; the question is then asked alone.
    async fn expand(
        &self,
        query: &QueryText,
        options: ExpansionOptions,
        deadline: Instant,
    ) -> Result<Expanded>;
}
