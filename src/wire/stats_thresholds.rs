//! Views of `rag.stats.<tenant>` that have thresholds: what they are when nothing is said, and what they may be.

use super::catalog::MAX_PAGE_SIZE;
use super::stats::{StatsView, limit, within};
use super::v1;
use crate::error::{Error, Result};
use crate::model::{DocumentSelection, PoorJudgement, QuerySelection, ScoreKind};

const DEFAULT_COMPARED: u32 = 300;
const DEFAULT_FLOOR: f64 = 0.5;
const DEFAULT_SIMILARITY: f64 = 0.5;

pub(super) fn poor_documents(v: &v1::PoorDocumentsView) -> Result<StatsView> {
    let usual = PoorJudgement::default();
    let at_least = |field: &str, value: Option<i32>, usual: u64| match value.map(u64::try_from) {
        None => Ok(usual),
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(Error::invalid_field(field, "must not be negative")),
    };
    let share = v.min_bad_share.unwrap_or(usual.min_bad_share);
    if !(0.0..=1.0).contains(&share) {
        let field = "poorDocuments.minBadShare";
        return Err(Error::invalid_field(field, "must be 0 to 1"));
    }
    let thresholds = PoorJudgement {
        min_retrievals: at_least(
            "poorDocuments.minRetrievals",
            v.min_retrievals,
            usual.min_retrievals,
        )?,
        min_feedback: at_least(
            "poorDocuments.minFeedback",
            v.min_feedback,
            usual.min_feedback,
        )?,
        min_bad_share: share,
    };
    let limit = limit("poorDocuments.limit", v.limit)?;
    Ok(StatsView::Documents(
        DocumentSelection::PoorlyJudged(thresholds),
        limit,
    ))
}

/// RRF and the like are no confidence: a floor on them would mean nothing.
pub(super) fn low_relevance(v: &v1::LowRelevanceQueriesView) -> Result<StatsView> {
    use v1::score::Kind;
    let kind = match Kind::try_from(v.score_kind) {
        Ok(Kind::Unspecified | Kind::CrossEncoder) => ScoreKind::CrossEncoder,
        Ok(Kind::Cosine) => ScoreKind::Cosine,
        _ => {
            let field = "lowRelevanceQueries.scoreKind";
            let problem = "must be COSINE or CROSS_ENCODER: other scores are no confidence";
            return Err(Error::invalid_field(field, problem));
        }
    };
    let below = v.below.unwrap_or(DEFAULT_FLOOR);
    if !below.is_finite() {
        let field = "lowRelevanceQueries.below";
        return Err(Error::invalid_field(field, "must be a finite number"));
    }
    let limit = limit("lowRelevanceQueries.limit", v.limit)?;
    let selection = QuerySelection::LowRelevance { kind, below };
    Ok(StatsView::Queries(selection, limit))
}

pub(super) fn clusters(v: &v1::ClustersView) -> Result<StatsView> {
    let min_similarity = v.min_similarity.unwrap_or(DEFAULT_SIMILARITY);
    if !(min_similarity > 0.0 && min_similarity <= 1.0) {
        let field = "clusters.minSimilarity";
        return Err(Error::invalid_field(field, "must be above 0, up to 1"));
    }
    Ok(StatsView::Clusters {
        limit: limit("clusters.limit", v.limit)?,
        queries: within(
            "clusters.queries",
            v.queries,
            DEFAULT_COMPARED,
            MAX_PAGE_SIZE,
        )?,
        min_similarity,
    })
}
