//! The retriever that every stage decorates.

use std::fmt;

use async_trait::async_trait;

use super::RequestContext;
use crate::error::Result;
use crate::model::{Retrieval, RetrievalRequest};

/// Answers a retrieval request.
#[async_trait]
pub trait Retriever: Send + Sync + fmt::Debug {
    /// The names of this stage and those below, outermost first, joined by ` > `.
    fn describe(&self) -> String;

    /// Answers the request. Dropping the future cancels the work.
    ///
    /// # Errors
    /// `InvalidField`, `DependencyFailed`, `SchemaConflict`, `Overloaded`, `Timeout`.
    async fn retrieve(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<Retrieval>;
}
