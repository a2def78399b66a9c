//! The retriever that every stage decorates.

use std::fmt;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::model::{Retrieval, RetrievalRequest};

/// What all stages of one request share: its time budget.
#[derive(Debug, Clone)]
pub struct RequestContext {
    deadline: Instant,
}

impl RequestContext {
    /// A budget that ends at `deadline`.
    pub fn until(deadline: Instant) -> Self {
        Self { deadline }
    }

    /// When the budget ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What is left; zero when it is used up.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Fails when the budget is used up.
    ///
    /// # Errors
    /// `Timeout` naming the stage.
    pub fn check(&self, stage: &'static str) -> Result<()> {
        if self.remaining().is_zero() {
            Err(Error::timeout(stage))
        } else {
            Ok(())
        }
    }
}

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
