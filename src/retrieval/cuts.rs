//! The last cuts over what the stages give: floors, chunks per document, the limit; and what makes an answer worthless.
//!
//! Must not know which stages ran: it reads the final scores.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::ranking;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{ChunkFate, Outcome, Retrieval, RetrievalRequest, ScoreKind, StageName};
use crate::spi::{RequestContext, Retriever};

/// Cuts the answer of the outermost stage but tracking. It has no name in the stack: it does what every request asks for.
#[derive(Debug)]
pub(super) struct FinalCuts {
    inner: Arc<dyn Retriever>,
}

impl FinalCuts {
    pub(super) fn new(inner: Arc<dyn Retriever>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl Retriever for FinalCuts {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn retrieve(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<Retrieval> {
        let retrieval = self.inner.retrieve(request, context).await?;
        finish(request, context, retrieval)
    }
}

fn finish(
    request: &RetrievalRequest,
    context: &RequestContext,
    mut retrieval: Retrieval,
) -> Result<Retrieval> {
    check_required(request, &retrieval)?;
    let found = retrieval.outcome != Outcome::NoCorpus && retrieval.outcome != Outcome::NoMatch;
    let results = &mut retrieval.results;
    if let Some(floor) = request.options.min_relevance {
        context.sift(results, ChunkFate::BelowMinRelevance, |chunk| {
            chunk.relevance >= floor
        });
    }
    let (most, mut seen) = (request.options.max_chunks_per_document, HashMap::new());
    context.sift(results, ChunkFate::DocumentLimit, |chunk| {
        ranking::within(chunk, most, &mut seen)
    });
    context.cut(results, request.limit);
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
