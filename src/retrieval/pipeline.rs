//! The whole of a retrieval but for tracking: which stages this request wants, and the last cuts over what they give.
//!
//! Must not know what a stage does.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::ranking;
use super::stack::{Layer, RetrieverStack, StackSwitches};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Outcome, Retrieval, RetrievalOptions, RetrievalRequest, ScoreKind, StageName};
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
}

impl fmt::Debug for StageFactories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageFactories")
            .field("corrective", &self.corrective.is_some())
            .field("expansion", &self.expansion.is_some())
            .field("reranking", &self.reranking.is_some())
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
            tracking: None,
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
        let retrieval = stack.retriever().retrieve(request, &context).await?;
        finish(request, retrieval)
    }
}

/// The last cuts, over the final scores.
fn finish(request: &RetrievalRequest, mut retrieval: Retrieval) -> Result<Retrieval> {
    check_required(request, &retrieval)?;
    let found = retrieval.outcome != Outcome::NoCorpus && retrieval.outcome != Outcome::NoMatch;
    let mut results = std::mem::take(&mut retrieval.results);
    if let Some(floor) = request.options.min_relevance {
        results.retain(|chunk| chunk.relevance >= floor);
    }
    let results = ranking::capped(results, request.options.max_chunks_per_document);
    retrieval.results = ranking::first(results, request.limit);
    if found && retrieval.results.is_empty() {
        retrieval.outcome = Outcome::NoRelevantContext;
    }
    dedup(&mut retrieval.degraded);
    dedup(&mut retrieval.warnings);
    Ok(retrieval)
}

/// A required stage that is degraded makes the answer worthless to this caller; so does a floor on scores that a degraded
/// cross-encoder did not give.
fn check_required(request: &RetrievalRequest, retrieval: &Retrieval) -> Result<()> {
    let degraded = |stage: &StageName| retrieval.degraded.contains(stage);
    if let Some(stage) = request.options.require.iter().find(|stage| degraded(stage)) {
        return Err(refused("a required stage could not do its work", *stage));
    }
    let deciding = [StageName::Reranking, StageName::Corrective]
        .into_iter()
        .find(|stage| request.options.wants(*stage));
    let Some(deciding) = deciding.filter(|_| request.options.min_relevance.is_some()) else {
        return Ok(());
    };
    let all_scored = (retrieval.results.iter()).all(|c| c.score_kind == ScoreKind::CrossEncoder);
    if all_scored && !degraded(&deciding) {
        return Ok(());
    }
    Err(refused(
        "minRelevance needs the cross-encoder's scores, and it could not give them all",
        deciding,
    ))
}

fn refused(message: &str, stage: StageName) -> Error {
    Error::new(ErrorKind::RequiredStageDegraded, message).at_stage(stage.name())
}

/// Keeps the first of equals, in order.
fn dedup<T: PartialEq>(values: &mut Vec<T>) {
    let mut kept: Vec<T> = Vec::with_capacity(values.len());
    for value in values.drain(..) {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    *values = kept;
}
