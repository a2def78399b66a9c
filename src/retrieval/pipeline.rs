//! The whole of a retrieval: which stages this request wants, and the stack that is built of them.
//!
//! Must not know what a stage does.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::stack::{Layer, RetrieverStack, StackSwitches};
use crate::error::Result;
use crate::model::{Retrieval, RetrievalOptions, RetrievalRequest, StageName};
use crate::spi::{RequestContext, Retriever};

/// Makes a stage for a request, as its options want it.
pub type StageFactory = Arc<dyn Fn(&RetrievalOptions) -> Layer + Send + Sync>;

/// The stages whose parts are configured; a request that wants one of the others was refused before.
#[derive(Clone, Default)]
pub struct StageFactories {
    /// Fetches again and grades.
    pub corrective: Option<StageFactory>,
    /// Asks several queries.
    pub expansion: Option<StageFactory>,
    /// Reorders.
    pub reranking: Option<StageFactory>,
    /// Tells what was found: around every request, since it is not the caller's to choose.
    pub tracking: Option<StageFactory>,
}

impl fmt::Debug for StageFactories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageFactories")
            .field("corrective", &self.corrective.is_some())
            .field("expansion", &self.expansion.is_some())
            .field("reranking", &self.reranking.is_some())
            .field("tracking", &self.tracking.is_some())
            .finish()
    }
}

impl StageFactories {
    fn switches(&self, options: &RetrievalOptions) -> StackSwitches {
        let made = |wanted: bool, factory: &Option<StageFactory>| match factory {
            Some(factory) if wanted => Some(factory(options)),
            Some(_) | None => None,
        };
        StackSwitches {
            corrective: made(options.wants(StageName::Corrective), &self.corrective),
            expansion: made(options.wants(StageName::Expansion), &self.expansion),
            reranking: made(options.wants(StageName::Reranking), &self.reranking),
            tracking: made(true, &self.tracking),
        }
    }
}

/// Hybrid retrieval with the stages each request wants around it.
#[derive(Debug, Clone)]
pub struct RetrievalPipeline {
    hybrid: Arc<dyn Retriever>,
    factories: StageFactories,
    max_pairs: u32,
    describe: String,
}

impl RetrievalPipeline {
    /// A pipeline that may score `max_pairs` pairs a request; `defaults` are the options of a request that brings none.
    pub fn new(
        hybrid: Arc<dyn Retriever>,
        factories: StageFactories,
        max_pairs: u32,
        defaults: &RetrievalOptions,
    ) -> Self {
        let switches = factories.switches(defaults);
        let describe = RetrieverStack::over(Arc::clone(&hybrid), switches).describe();
        Self {
            hybrid,
            factories,
            max_pairs,
            describe,
        }
    }

    /// The stack that answers a request with these options.
    pub fn stack(&self, options: &RetrievalOptions) -> RetrieverStack {
        RetrieverStack::over(Arc::clone(&self.hybrid), self.factories.switches(options))
    }
}

#[async_trait]
impl Retriever for RetrievalPipeline {
    /// That of a request without options.
    fn describe(&self) -> String {
        self.describe.clone()
    }

    async fn retrieve(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<Retrieval> {
        let stack = self.stack(&request.options);
        let context = context.clone().with_pairs(self.max_pairs);
        stack.retriever().retrieve(request, &context).await
    }
}
