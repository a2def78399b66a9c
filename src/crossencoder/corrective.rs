//! The corrective stage (CRAG: Yan et al., "Corrective Retrieval Augmented Generation", 2024): grades what retrieval found,
//! fetches once more when too little of it is correct, and may drop what is incorrect.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::promotion::{order, promote};
use super::scoring::{PairScorer, Scoring, Shortfall};
use crate::error::Result;
use crate::model::{
    Calibration, ChunkFate, ChunkId, CorrectiveMode, Grade, Outcome, Retrieval, RetrievalRequest,
    RetrievedChunk, Scored, StageName, StageReport,
};
use crate::spi::{RequestContext, Retriever};

/// How far the stage goes.
#[derive(Debug, Clone, Copy)]
pub struct CorrectiveConfig {
    /// Chunks that are graded; the request's limit if that is larger.
    pub pool: u32,
    /// With fewer correct chunks it fetches once more.
    pub min_correct: u32,
    /// How many times as deep the second fetch goes.
    pub depth_factor: u32,
}

/// Grades the answers of an inner retriever.
#[derive(Debug)]
pub struct CorrectiveRetriever {
    inner: Arc<dyn Retriever>,
    scorer: PairScorer,
    config: CorrectiveConfig,
    mode: CorrectiveMode,
}

/// A request on its way through the stage.
struct Work {
    inner: Retrieval,
    /// The logit of each chunk of `inner.results`.
    logits: Vec<Option<f32>>,
    inputs: u32,
    calls: u32,
    degraded: bool,
    skipped: bool,
    /// Time the inner stages took.
    inside: Duration,
}

impl CorrectiveRetriever {
    /// A stage around `inner`.
    pub fn new(
        inner: Arc<dyn Retriever>,
        scorer: PairScorer,
        config: CorrectiveConfig,
        mode: CorrectiveMode,
    ) -> Self {
        Self {
            inner,
            scorer,
            config,
            mode,
        }
    }

    fn pool(&self, request: &RetrievalRequest) -> RetrievalRequest {
        RetrievalRequest {
            limit: self.config.pool.max(request.limit),
            ..request.clone()
        }
    }

    async fn first(&self, request: &RetrievalRequest, context: &RequestContext) -> Result<Work> {
        let started = Instant::now();
        let inner = self.inner.retrieve(&self.pool(request), context).await?;
        let inside = started.elapsed();
        let mut work = Work {
            logits: Vec::new(),
            inputs: count(&inner.results),
            calls: 0,
            degraded: false,
            skipped: false,
            inside,
            inner,
        };
        if !work.inner.results.is_empty() {
            let chunks: Vec<&RetrievedChunk> = work.inner.results.iter().collect();
            let scoring = self
                .scorer
                .score(&request.query.text, &chunks, context)
                .await;
            work.take(scoring);
        }
        Ok(work)
    }

    /// Whether too little is correct and there may be more.
    fn must_fetch_more(&self, work: &Work, calibration: &Calibration) -> bool {
        let correct = work.logits.iter().flatten();
        let correct = correct.filter(|logit| calibration.grade(**logit) == Grade::Correct);
        let enough = correct.count() >= self.config.min_correct as usize;
        !enough && work.inner.more && !work.skipped && self.config.depth_factor > 1
    }

    /// Fetches deeper and scores what is new. What it can't do leaves the first fetch as it is.
    async fn second(&self, request: &RetrievalRequest, context: &RequestContext, work: &mut Work) {
        let pool = self.pool(request);
        let deeper = RetrievalRequest {
            limit: pool.limit.saturating_mul(self.config.depth_factor),
            depth_factor: request
                .depth_factor
                .saturating_mul(self.config.depth_factor),
            ..pool
        };
        let started = Instant::now();
        let fetched = self.inner.retrieve(&deeper, context).await;
        work.inside += started.elapsed();
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(error) => {
                tracing::warn!(error = %error.chain(), "the second fetch failed");
                work.degraded = true;
                return;
            }
        };
        work.inputs += count(&fetched.results);
        work.add_reports(&fetched);
        work.inner.gradings.corrected = true;
        let known: HashSet<ChunkId> = work.inner.results.iter().map(|c| c.chunk_id).collect();
        let new: Vec<RetrievedChunk> = (fetched.results.into_iter())
            .filter(|chunk| !known.contains(&chunk.chunk_id))
            .collect();
        let chunks: Vec<&RetrievedChunk> = new.iter().collect();
        let scoring = self
            .scorer
            .score(&request.query.text, &chunks, context)
            .await;
        if scoring.shortfall == Some(Shortfall::Skipped) {
            // The first fetch is graded; what came too late is left out.
            work.degraded = true;
            work.calls += scoring.calls;
            return;
        }
        work.take(scoring);
        work.inner.results.extend(new);
    }

    /// Grades, orders, filters and cuts.
    fn finish(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
        started: Instant,
        work: Work,
    ) -> Retrieval {
        let calibration = self.scorer.calibration(&request.corpus);
        let mut retrieval = work.inner;
        let found = !retrieval.results.is_empty();
        if found && !work.skipped {
            retrieval
                .warnings
                .extend(self.scorer.calibration_warning(&request.corpus));
            let graded = std::mem::take(&mut retrieval.results)
                .into_iter()
                .zip(work.logits);
            let graded = graded.map(|(mut chunk, logit)| {
                if let Some(value) = logit {
                    chunk.grade = calibration.grade(value);
                    let pair = (request.query.text.clone(), chunk.chunk_id);
                    retrieval.gradings.pairs.insert(pair, chunk.grade);
                    promote(&mut chunk, self.scored(request, value), calibration);
                }
                (logit, chunk)
            });
            retrieval.results = order(graded.collect());
            context.sift(&mut retrieval.results, ChunkFate::Incorrect, |chunk| {
                self.mode != CorrectiveMode::Filter || chunk.grade != Grade::Incorrect
            });
        }
        context.cut(&mut retrieval.results, request.limit);
        if found && retrieval.results.is_empty() {
            retrieval.outcome = Outcome::NoRelevantContext;
        }
        if work.degraded {
            retrieval.degraded.push(StageName::Corrective);
        }
        let report = StageReport {
            stage: StageName::Corrective,
            duration: started.elapsed().saturating_sub(work.inside),
            inputs: work.inputs,
            outputs: count(&retrieval.results),
            model_calls: work.calls,
        };
        retrieval.stages.insert(0, report);
        retrieval
    }

    fn scored(&self, request: &RetrievalRequest, value: f32) -> Scored {
        Scored {
            value,
            query: request.query.text.clone(),
            model: self.scorer.model().to_owned(),
        }
    }
}

impl Work {
    fn take(&mut self, scoring: Scoring) {
        self.skipped |= scoring.shortfall == Some(Shortfall::Skipped);
        self.degraded |= scoring.shortfall.is_some();
        self.calls += scoring.calls;
        self.logits.extend(scoring.logits);
        self.inner.warnings.extend(scoring.warnings);
    }

    /// Inner stages ran twice: their figures add up.
    fn add_reports(&mut self, fetched: &Retrieval) {
        for (report, more) in self.inner.stages.iter_mut().zip(&fetched.stages) {
            report.duration += more.duration;
            report.inputs += more.inputs;
            report.outputs += more.outputs;
            report.model_calls += more.model_calls;
        }
    }
}

fn count(chunks: &[RetrievedChunk]) -> u32 {
    u32::try_from(chunks.len()).unwrap_or(u32::MAX)
}

#[async_trait]
impl Retriever for CorrectiveRetriever {
    fn describe(&self) -> String {
        format!(
            "{} > {}",
            StageName::Corrective.name(),
            self.inner.describe()
        )
    }

    #[tracing::instrument(target = "ragbus", name = "corrective", skip_all)]
    async fn retrieve(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<Retrieval> {
        let started = Instant::now();
        let mut work = self.first(request, context).await?;
        let calibration = self.scorer.calibration(&request.corpus);
        if self.must_fetch_more(&work, calibration) {
            if context.pairs().left() > 0 {
                self.second(request, context, &mut work).await;
            } else {
                // What it fetched could not be graded.
                work.degraded = true;
            }
        }
        Ok(self.finish(request, context, started, work))
    }
}
