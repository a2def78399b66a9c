//! The one way pairs are scored: hand-offs and the request's memo first, then the model, within both budgets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{Calibration, CorpusRef, RetrievedChunk};
use crate::spi::{CrossEncoder, PairScore, PairScores, PairScoring, Priority, RequestContext};

/// What a stage leaves of the time budget, so that the reply still comes in time.
const LEAST_REST: Duration = Duration::from_millis(5);
const MOST_REST: Duration = Duration::from_millis(100);

/// Scores chunks against queries with one model.
#[derive(Debug, Clone)]
pub struct PairScorer {
    encoder: Arc<dyn CrossEncoder>,
}

/// What became of a call.
#[derive(Debug, Default)]
pub(super) struct Scoring {
    /// One a chunk, in order; `None` = it could not be scored.
    pub(super) logits: Vec<Option<f32>>,
    /// Pairs that were run through the model now.
    pub(super) calls: u32,
    /// What stopped it from scoring them all.
    pub(super) shortfall: Option<Shortfall>,
    /// What the caller should know.
    pub(super) warnings: Vec<String>,
}

/// Why not all pairs have a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortfall {
    /// The stage can't do its work: no time, no room, or nothing but failures.
    Skipped,
    /// Some pairs failed, or the pair budget was used up.
    Partial,
}

impl PairScorer {
    /// A scorer over a model.
    pub fn new(encoder: Arc<dyn CrossEncoder>) -> Self {
        Self { encoder }
    }

    /// The model's id.
    pub(super) fn model(&self) -> &str {
        &self.encoder.info().id
    }

    /// How the model's outputs are read for a corpus.
    pub(super) fn calibration(&self, corpus: &CorpusRef) -> &Calibration {
        self.encoder.info().calibrations.of(corpus)
    }

    /// A word about a model that nobody has calibrated.
    pub(super) fn calibration_warning(&self, corpus: &CorpusRef) -> Option<String> {
        let known = self.calibration(corpus).is_measured();
        (!known).then(|| {
            format!(
                "{} is not calibrated: its grades and probabilities rest on conservative guesses; see `ragbus calibrate`",
                self.model()
            )
        })
    }

    /// Scores chunks, best first, against a query text. Never fails: what it could not do is in the shortfall.
    #[tracing::instrument(target = "ragbus", name = "score pairs", skip_all)]
    pub(super) async fn score(
        &self,
        query: &str,
        chunks: &[&RetrievedChunk],
        context: &RequestContext,
    ) -> Scoring {
        let mut scoring = Scoring {
            logits: chunks.iter().map(|c| self.handed_on(c, query)).collect(),
            ..Scoring::default()
        };
        if scoring.logits.iter().all(Option::is_some) {
            return scoring;
        }
        let deadline = deadline(context);
        let memo = context.memo().scores(self.model(), query);
        let until = tokio::time::Instant::from_std(deadline);
        // Sub-queries score in their order. The model's threads are kept busy by one of them as well as by many.
        let turn = async {
            context.my_turn().await;
            memo.lock().await
        };
        let Ok(mut known) = tokio::time::timeout_at(until, turn).await else {
            scoring.shortfall = Some(Shortfall::Skipped);
            return scoring;
        };
        let missing = self.spend(chunks, &mut scoring, &known, context);
        if !missing.is_empty() {
            let request = PairScoring {
                query: query.to_owned(),
                documents: missing.iter().map(|&i| chunks[i].content.clone()).collect(),
                priority: Priority::Interactive,
                deadline: Some(deadline),
            };
            let scored =
                match tokio::time::timeout_at(until, self.encoder.score_pairs(request)).await {
                    Ok(scored) => scored,
                    Err(_) => Err(Error::timeout("cross-encoder")),
                };
            take_in(scored, &missing, chunks, &mut scoring, &mut known);
        }
        scoring
    }

    /// A score that a chunk carries counts only for this query and model.
    fn handed_on(&self, chunk: &RetrievedChunk, query: &str) -> Option<f32> {
        chunk
            .scored
            .as_ref()
            .filter(|scored| scored.query == query && scored.model == self.model())
            .map(|scored| scored.value)
    }

    /// Fills in what the memo knows and takes pairs from the budget for the rest, the best-ranked first. Returns which
    /// chunks have to be run.
    fn spend(
        &self,
        chunks: &[&RetrievedChunk],
        scoring: &mut Scoring,
        known: &PairScores,
        context: &RequestContext,
    ) -> Vec<usize> {
        let budget = context.pairs();
        let mut missing = Vec::new();
        for (index, chunk) in chunks.iter().enumerate() {
            if scoring.logits[index].is_some() {
                continue;
            }
            let score = known.get(&(chunk.chunk_id, chunk.document_sequence));
            match score {
                Some(score) => scoring.logits[index] = Some(*score),
                None if budget.take(1) == 1 => missing.push(index),
                None => scoring.shortfall = Some(Shortfall::Partial),
            }
        }
        if scoring.shortfall.is_some() {
            scoring.warnings.push(
                "the request's pair budget is used up: not all chunks were scored".to_owned(),
            );
        }
        missing
    }
}

/// Takes the model's answer in.
fn take_in(
    scored: Result<Vec<Result<PairScore>>>,
    missing: &[usize],
    chunks: &[&RetrievedChunk],
    scoring: &mut Scoring,
    known: &mut PairScores,
) {
    let scores = match scored {
        Ok(scores) => scores,
        Err(error) => {
            tracing::warn!(error = %error.chain(), "pairs can't be scored");
            scoring.shortfall = Some(Shortfall::Skipped);
            return;
        }
    };
    let (mut failed, mut late, mut cut) = (0usize, false, (0u32, 0u32));
    let pairs = scores.len();
    for (&index, score) in missing.iter().zip(scores) {
        match score {
            Ok(score) if score.logit.is_finite() => {
                let chunk = chunks[index];
                known.insert((chunk.chunk_id, chunk.document_sequence), score.logit);
                scoring.logits[index] = Some(score.logit);
                scoring.calls += 1;
                cut = (
                    cut.0 + u32::from(score.truncated > 0),
                    cut.1 + score.truncated,
                );
            }
            Ok(_) => failed += 1,
            Err(error) => {
                late |= error.kind() == ErrorKind::Timeout;
                if error.kind() == ErrorKind::InvalidField && failed == 0 {
                    scoring.warnings.push(
                        "the query is too long for the cross-encoder: no room is left for a chunk"
                            .to_owned(),
                    );
                }
                if failed == 0 {
                    tracing::warn!(error = %error.chain(), "a pair can't be scored");
                }
                failed += 1;
            }
        }
    }
    failed += missing.len().saturating_sub(pairs);
    if cut.0 > 0 {
        let (chunks, tokens) = cut;
        scoring.warnings.push(format!(
            "the cross-encoder did not read all of {chunks} chunks: {tokens} tokens were cut off"
        ));
    }
    let nothing = scoring.logits.iter().all(Option::is_none);
    if late || (failed > 0 && nothing) {
        scoring.shortfall = Some(Shortfall::Skipped);
    } else if failed > 0 {
        scoring.shortfall = Some(Shortfall::Partial);
    }
}

/// When scoring has to end: a tenth of what is left is kept for the rest of the way.
fn deadline(context: &RequestContext) -> Instant {
    let rest = (context.remaining() / 10).clamp(LEAST_REST, MOST_REST);
    let now = Instant::now();
    context.deadline().checked_sub(rest).unwrap_or(now)
}
