//! The reranking stage: orders a pool of candidates by the cross-encoder, whatever found them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::promotion::{order, promote};
use super::scoring::{PairScorer, Shortfall};
use crate::error::Result;
use crate::model::{
    RerankAgainst, Retrieval, RetrievalRequest, RetrievedChunk, Scored, StageName, StageReport,
};
use crate::spi::{RequestContext, Retriever};

/// How far the stage goes.
#[derive(Debug, Clone, Copy)]
pub struct RerankingConfig {
    /// Chunks that are scored; the request's limit if that is larger.
    pub pool: u32,
}

/// Reorders the answers of an inner retriever.
#[derive(Debug)]
pub struct RerankingRetriever {
    inner: Arc<dyn Retriever>,
    scorer: PairScorer,
    config: RerankingConfig,
    against: RerankAgainst,
}

/// The best score of each chunk, and what it cost.
#[derive(Default)]
struct Best {
    /// By position: the score with what it was computed for.
    scores: Vec<Option<Scored>>,
    calls: u32,
    shortfall: Option<Shortfall>,
    warnings: Vec<String>,
}

impl RerankingRetriever {
    /// A stage around `inner`.
    pub fn new(
        inner: Arc<dyn Retriever>,
        scorer: PairScorer,
        config: RerankingConfig,
        against: RerankAgainst,
    ) -> Self {
        Self {
            inner,
            scorer,
            config,
            against,
        }
    }

    /// The query texts to score against, each with the positions of its chunks.
    fn questions<'a>(
        &self,
        original: &'a str,
        chunks: &'a [RetrievedChunk],
    ) -> Vec<(&'a str, Vec<usize>)> {
        if self.against == RerankAgainst::Original {
            return vec![(original, (0..chunks.len()).collect())];
        }
        let mut questions: Vec<(&str, Vec<usize>)> = Vec::new();
        for (index, chunk) in chunks.iter().enumerate() {
            let own = chunk.found_by.is_empty().then_some(original);
            for text in chunk.found_by.iter().map(String::as_str).chain(own) {
                match questions.iter_mut().find(|(known, _)| *known == text) {
                    Some((_, positions)) => positions.push(index),
                    None => questions.push((text, vec![index])),
                }
            }
        }
        questions
    }

    async fn best(
        &self,
        request: &RetrievalRequest,
        chunks: &[RetrievedChunk],
        context: &RequestContext,
    ) -> Best {
        let mut best = Best::default();
        best.scores.resize(chunks.len(), None);
        for (text, positions) in self.questions(&request.query.text, chunks) {
            let asked: Vec<&RetrievedChunk> = positions.iter().map(|&i| &chunks[i]).collect();
            let scoring = self.scorer.score(text, &asked, context).await;
            best.calls += scoring.calls;
            best.warnings.extend(scoring.warnings);
            best.shortfall = worse(best.shortfall, scoring.shortfall);
            for (&index, logit) in positions.iter().zip(scoring.logits) {
                let known = best.scores[index].as_ref().map(|scored| scored.value);
                if let Some(value) = logit.filter(|v| known.is_none_or(|known| *v > known)) {
                    best.scores[index] = Some(Scored {
                        value,
                        query: text.to_owned(),
                        model: self.scorer.model().to_owned(),
                    });
                }
            }
        }
        best
    }

    fn promote(
        &self,
        request: &RetrievalRequest,
        chunks: Vec<RetrievedChunk>,
        scores: Vec<Option<Scored>>,
    ) -> Vec<RetrievedChunk> {
        let calibration = self.scorer.calibration(&request.corpus);
        let promoted = chunks.into_iter().zip(scores).map(|(mut chunk, scored)| {
            let logit = scored.as_ref().map(|scored| scored.value);
            if let Some(scored) = scored {
                promote(&mut chunk, scored, calibration);
            }
            chunk.reranked = true;
            (logit, chunk)
        });
        order(promoted.collect())
    }

    async fn rerank(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
        retrieval: &mut Retrieval,
    ) -> u32 {
        let best = self.best(request, &retrieval.results, context).await;
        retrieval.warnings.extend(best.warnings);
        if best.shortfall.is_some() {
            retrieval.degraded.push(StageName::Reranking);
        }
        if best.shortfall != Some(Shortfall::Skipped) {
            let chunks = std::mem::take(&mut retrieval.results);
            retrieval.results = self.promote(request, chunks, best.scores);
            retrieval
                .warnings
                .extend(self.scorer.calibration_warning(&request.corpus));
        }
        best.calls
    }
}

/// A skipped question spoils the whole order; a partial one leaves gaps.
fn worse(a: Option<Shortfall>, b: Option<Shortfall>) -> Option<Shortfall> {
    match (a, b) {
        (Some(Shortfall::Skipped), _) | (_, Some(Shortfall::Skipped)) => Some(Shortfall::Skipped),
        (a, b) => a.or(b),
    }
}

#[async_trait]
impl Retriever for RerankingRetriever {
    fn describe(&self) -> String {
        format!(
            "{} > {}",
            StageName::Reranking.name(),
            self.inner.describe()
        )
    }

    #[tracing::instrument(target = "ragbus", name = "reranking", skip_all)]
    async fn retrieve(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<Retrieval> {
        let started = Instant::now();
        let pool = RetrievalRequest {
            limit: self.config.pool.max(request.limit),
            ..request.clone()
        };
        let mut retrieval = self.inner.retrieve(&pool, context).await?;
        let inside: Duration = started.elapsed();
        let inputs = retrieval.results.len();
        let ran = retrieval.results.iter().any(|chunk| chunk.reranked);
        let mut calls = 0;
        if !ran && inputs > 0 {
            calls = self.rerank(request, context, &mut retrieval).await;
        }
        context.cut(&mut retrieval.results, request.limit);
        let size = |chunks: usize| u32::try_from(chunks).unwrap_or(u32::MAX);
        let report = StageReport {
            stage: StageName::Reranking,
            duration: started.elapsed().saturating_sub(inside),
            inputs: size(inputs),
            outputs: size(retrieval.results.len()),
            model_calls: calls,
        };
        retrieval.stages.insert(0, report);
        Ok(retrieval)
    }
}
