//! What tracked retrievals add up to. Scores are averaged within one kind only: numbers of different kinds don't compare.
//!
//! Must not know how figures are computed or shown.

use std::collections::{BTreeMap, BTreeSet};

use super::{DocumentId, FeedbackOutcome, Outcome, ScoreKind, StageName, Timestamp, TrackedQuery};
use crate::error::ErrorKind;

/// Mean scores by kind; a kind that did not occur is absent.
pub type MeanScores = BTreeMap<ScoreKind, f64>;

/// How often each judgement was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeedbackCounts {
    /// Of no use.
    pub not_relevant: u64,
    /// Of some use.
    pub partially_relevant: u64,
    /// Of use.
    pub relevant: u64,
    /// Just what was needed.
    pub highly_relevant: u64,
}

impl FeedbackCounts {
    /// Counts one judgement.
    pub fn count(&mut self, outcome: FeedbackOutcome) {
        match outcome {
            FeedbackOutcome::NotRelevant => self.not_relevant += 1,
            FeedbackOutcome::PartiallyRelevant => self.partially_relevant += 1,
            FeedbackOutcome::Relevant => self.relevant += 1,
            FeedbackOutcome::HighlyRelevant => self.highly_relevant += 1,
        }
    }

    /// All of them.
    pub const fn total(&self) -> u64 {
        self.bad() + self.relevant + self.highly_relevant
    }

    /// Those that speak against the document.
    pub const fn bad(&self) -> u64 {
        self.not_relevant + self.partially_relevant
    }
}

/// A document as replies of a window showed it.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentStats {
    /// The document.
    pub document_id: DocumentId,
    /// Replies it was in.
    pub retrievals: u64,
    /// The first of them.
    pub first_at: Timestamp,
    /// The last of them.
    pub last_at: Timestamp,
    /// Means of its best chunk's score.
    pub mean_scores: MeanScores,
    /// Judgements on it, for these replies.
    pub feedback: FeedbackCounts,
}

/// Which documents are listed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum DocumentSelection {
    /// Every one that was in a reply.
    #[default]
    All,
    /// Those that were in many replies and were judged bad.
    PoorlyJudged(PoorJudgement),
}

/// When a document counts as retrieved often and judged bad; ends are inclusive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoorJudgement {
    /// The fewest replies it was in.
    pub min_retrievals: u64,
    /// The fewest judgements, so that one user's mood decides nothing.
    pub min_feedback: u64,
    /// The least share of judgements that speak against it, 0 to 1.
    pub min_bad_share: f64,
}

impl Default for PoorJudgement {
    fn default() -> Self {
        Self {
            min_retrievals: 3,
            min_feedback: 3,
            min_bad_share: 0.7,
        }
    }
}

impl DocumentSelection {
    /// The thresholds; with `All` every document passes.
    pub fn thresholds(self) -> PoorJudgement {
        match self {
            DocumentSelection::All => PoorJudgement {
                min_retrievals: 0,
                min_feedback: 0,
                min_bad_share: 0.0,
            },
            DocumentSelection::PoorlyJudged(thresholds) => thresholds,
        }
    }

    /// Whether a document is meant.
    pub fn accepts(self, retrievals: u64, feedback: &FeedbackCounts) -> bool {
        let least = self.thresholds();
        retrievals >= least.min_retrievals
            && feedback.total() >= least.min_feedback
            && feedback.bad() as f64 >= least.min_bad_share * feedback.total() as f64
    }
}

/// A question as it was asked in a window; questions are the same when their texts (or hashes) are.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryStats {
    /// The question.
    pub query: TrackedQuery,
    /// How often it was asked.
    pub retrievals: u64,
    /// How often the request failed.
    pub failed: u64,
    /// How often the corpus had nothing for it: `NO_MATCH` or `NO_RELEVANT_CONTEXT`.
    pub zero_hits: u64,
    /// The first time.
    pub first_at: Timestamp,
    /// The last time.
    pub last_at: Timestamp,
    /// Means of the first result's score.
    pub mean_scores: MeanScores,
}

/// Which questions are listed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum QuerySelection {
    /// Every one, most frequent first.
    #[default]
    All,
    /// Those that found nothing at least once, most often first.
    ZeroHit,
    /// Those whose first result's mean score is below a floor, worst first. The kind has to be a confidence.
    LowRelevance {
        /// The kind of score.
        kind: ScoreKind,
        /// The floor.
        below: f64,
    },
}

/// A question and every document its replies held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryDocuments {
    /// The question.
    pub query: TrackedQuery,
    /// How often it was asked.
    pub retrievals: u64,
    /// The documents.
    pub documents: BTreeSet<DocumentId>,
}

/// The whole of a window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrackingTotals {
    /// Requests.
    pub retrievals: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The same by kind; one that did not occur is absent.
    pub failures: BTreeMap<ErrorKind, u64>,
    /// Answers by outcome; one that did not occur is absent.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Requests in which a stage could not do all of its work.
    pub degraded: u64,
    /// The same by stage; one that did not occur is absent.
    pub degraded_stages: BTreeMap<StageName, u64>,
    /// Chunks in replies.
    pub returned: u64,
    /// Chunks that were found and dropped.
    pub dropped: u64,
    /// The first request.
    pub first_at: Option<Timestamp>,
    /// The last request.
    pub last_at: Option<Timestamp>,
    /// Judgements.
    pub feedback: FeedbackCounts,
}

impl TrackingTotals {
    /// Answers of a corpus that had nothing for the question.
    pub fn zero_hits(&self) -> u64 {
        let of = |outcome| self.outcomes.get(&outcome).copied().unwrap_or_default();
        of(Outcome::NoMatch) + of(Outcome::NoRelevantContext)
    }

    /// The share of requests that were answered so, 0 to 1.
    pub fn zero_hit_share(&self) -> f64 {
        if self.retrievals == 0 {
            0.0
        } else {
            self.zero_hits() as f64 / self.retrievals as f64
        }
    }

    /// The share of requests in which a stage could not do all of its work, 0 to 1.
    pub fn degraded_share(&self) -> f64 {
        if self.retrievals == 0 {
            0.0
        } else {
            self.degraded as f64 / self.retrievals as f64
        }
    }
}

/// How long requests, or one stage of them, took, in microseconds. Percentiles are values that occurred: the smallest
/// one that is not below the given share of all (nearest rank).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyStats {
    /// The stage; `None` = the whole request, failed ones too.
    pub stage: Option<StageName>,
    /// How many were measured.
    pub samples: u64,
    /// The median.
    pub p50: u64,
    /// 90 of 100.
    pub p90: u64,
    /// 95 of 100.
    pub p95: u64,
    /// 99 of 100.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}
