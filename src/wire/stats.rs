//! Requests on `rag.stats.<tenant>` and `rag.admin.audit` as values: windows, views, limits.

use super::catalog::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, Page, read_cursor};
use super::cursors::read_judgement_cursor;
use super::encoding::{Encoding, decode};
use super::stats_thresholds::{clusters, low_relevance, poor_documents};
use super::timestamp::WireTimestamp;
use super::v1::{self, stats_request::View};
use crate::error::{Error, Result};
use crate::model::{
    CorpusName, DocumentId, DocumentSelection, QuerySelection, RecordPosition, TimeWindow,
};

const DEFAULT_SLICES: u32 = 30;
const MAX_SLICES: u32 = 200;

/// A validated question about tracked retrievals.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsQuestion {
    /// The corpus; `None` = all of them, which only totals can do.
    pub corpus: Option<CorpusName>,
    /// The window.
    pub window: TimeWindow,
    /// What is wanted.
    pub view: StatsView,
}

/// What is wanted of a window.
#[derive(Debug, Clone, PartialEq)]
pub enum StatsView {
    /// Sums.
    Totals,
    /// So many slices of time.
    Timeline(u32),
    /// Percentiles of times.
    Latencies,
    /// Up to so many documents.
    Documents(DocumentSelection, u32),
    /// Documents that no reply held.
    Unretrieved(Page),
    /// Up to so many questions.
    Queries(QuerySelection, u32),
    /// Questions that led to the same documents.
    Clusters {
        /// Clusters at most.
        limit: u32,
        /// Questions that are compared.
        queries: u32,
        /// The least likeness.
        min_similarity: f64,
    },
    /// Judgements with their questions.
    Judgements(JudgementPage),
}

/// A page of judgements.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgementPage {
    /// Entries at most.
    pub size: u32,
    /// The last judgement of the page before.
    pub after: Option<(RecordPosition, DocumentId)>,
}

/// Decodes and validates a statistics request.
///
/// # Errors
/// `Malformed` or `InvalidField`.
pub fn decode_stats(body: &[u8], encoding: Encoding) -> Result<StatsQuestion> {
    let request: v1::StatsRequest = decode(body, encoding)?;
    let corpus = corpus(&request.corpus)?;
    let window = window(request.since, request.until)?;
    let view = view(request.view)?;
    let all_can = matches!(view, StatsView::Totals | StatsView::Judgements(_));
    if corpus.is_none() && !all_can {
        return Err(Error::invalid_field("corpus", "must be set for this view"));
    }
    Ok(StatsQuestion {
        corpus,
        window,
        view,
    })
}

fn view(view: Option<View>) -> Result<StatsView> {
    match view {
        Some(View::Totals(_)) => Ok(StatsView::Totals),
        Some(View::Timeline(v)) => {
            let slices = within("timeline.slices", v.slices, DEFAULT_SLICES, MAX_SLICES)?;
            Ok(StatsView::Timeline(slices))
        }
        Some(View::Latencies(_)) => Ok(StatsView::Latencies),
        Some(View::Documents(v)) => {
            let limit = limit("documents.limit", v.limit)?;
            Ok(StatsView::Documents(DocumentSelection::All, limit))
        }
        Some(View::PoorDocuments(v)) => poor_documents(&v),
        Some(View::Unretrieved(v)) => unretrieved(&v),
        Some(View::Queries(v)) => {
            let limit = limit("queries.limit", v.limit)?;
            Ok(StatsView::Queries(QuerySelection::All, limit))
        }
        Some(View::ZeroHitQueries(v)) => {
            let limit = limit("zeroHitQueries.limit", v.limit)?;
            Ok(StatsView::Queries(QuerySelection::ZeroHit, limit))
        }
        Some(View::LowRelevanceQueries(v)) => low_relevance(&v),
        Some(View::Clusters(v)) => clusters(&v),
        Some(View::Judgements(v)) => Ok(StatsView::Judgements(JudgementPage {
            size: limit("judgements.pageSize", v.page_size)?,
            after: read_judgement_cursor(&v.cursor)?,
        })),
        None => Err(Error::invalid_field(
            "view",
            "must be one of totals, timeline, latencies, documents, poorDocuments, unretrieved, queries, zeroHitQueries, \
             lowRelevanceQueries, clusters, judgements",
        )),
    }
}

fn unretrieved(v: &v1::UnretrievedView) -> Result<StatsView> {
    let after = match v.cursor.as_str() {
        "" => None,
        cursor => Some(read_cursor(cursor)?),
    };
    let size = limit("unretrieved.pageSize", v.page_size)?;
    Ok(StatsView::Unretrieved(Page { size, after }))
}

pub(super) fn corpus(name: &str) -> Result<Option<CorpusName>> {
    match name {
        "" => Ok(None),
        name => CorpusName::new(name).map(Some),
    }
}

pub(super) fn limit(field: &str, value: Option<i32>) -> Result<u32> {
    within(field, value, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
}

pub(super) fn within(field: &str, value: Option<i32>, usual: u32, most: u32) -> Result<u32> {
    match value.map(u32::try_from) {
        None => Ok(usual),
        Some(Ok(value)) if (1..=most).contains(&value) => Ok(value),
        Some(_) => Err(Error::invalid_field(field, format!("must be 1 to {most}"))),
    }
}

/// A window of the wire.
///
/// # Errors
/// `InvalidField` when an end is no moment, or the window is empty.
pub(super) fn window(
    since: Option<WireTimestamp>,
    until: Option<WireTimestamp>,
) -> Result<TimeWindow> {
    let moment = |field: &str, time: Option<WireTimestamp>| match time.map(WireTimestamp::to_model)
    {
        None => Ok(None),
        Some(Some(time)) => Ok(Some(time)),
        Some(None) => Err(Error::invalid_field(field, "is out of range")),
    };
    let window = TimeWindow {
        since: moment("since", since)?,
        until: moment("until", until)?,
    };
    match (window.since, window.until) {
        (Some(since), Some(until)) if since >= until => {
            Err(Error::invalid_field("until", "must be after since"))
        }
        _ => Ok(window),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PoorJudgement, ScoreKind};

    fn decoded(json: &str) -> Result<StatsQuestion> {
        decode_stats(json.as_bytes(), Encoding::Json)
    }

    #[test]
    fn what_is_not_said_has_defaults() {
        let poor = decoded(r#"{"corpus":"c","poorDocuments":{}}"#).expect("valid");
        let usual = DocumentSelection::PoorlyJudged(PoorJudgement::default());
        assert_eq!(poor.view, StatsView::Documents(usual, 100));
        assert_eq!(poor.window, TimeWindow::ALL);
        let low = decoded(r#"{"corpus":"c","lowRelevanceQueries":{}}"#).expect("valid");
        let usual = QuerySelection::LowRelevance {
            kind: ScoreKind::CrossEncoder,
            below: 0.5,
        };
        assert_eq!(low.view, StatsView::Queries(usual, 100));
        assert_eq!(decoded(r#"{"totals":{}}"#).expect("valid").corpus, None);
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        let cases = [
            (r#"{}"#, "view"),
            (r#"{"latencies":{}}"#, "corpus"),
            (r#"{"corpus":"C","totals":{}}"#, "corpus"),
            (
                r#"{"corpus":"c","documents":{"limit":0}}"#,
                "documents.limit",
            ),
            (
                r#"{"corpus":"c","queries":{"limit":1001}}"#,
                "queries.limit",
            ),
            (
                r#"{"corpus":"c","timeline":{"slices":-1}}"#,
                "timeline.slices",
            ),
            (
                r#"{"corpus":"c","lowRelevanceQueries":{"scoreKind":"RRF"}}"#,
                "lowRelevanceQueries.scoreKind",
            ),
            (
                r#"{"corpus":"c","lowRelevanceQueries":{"below":"NaN"}}"#,
                "lowRelevanceQueries.below",
            ),
            (
                r#"{"corpus":"c","poorDocuments":{"minBadShare":1.5}}"#,
                "poorDocuments.minBadShare",
            ),
            (
                r#"{"corpus":"c","poorDocuments":{"minFeedback":-1}}"#,
                "poorDocuments.minFeedback",
            ),
            (
                r#"{"corpus":"c","clusters":{"minSimilarity":0}}"#,
                "clusters.minSimilarity",
            ),
            (r#"{"corpus":"c","judgements":{"cursor":"x"}}"#, "cursor"),
            (
                r#"{"since":"2024-01-02T00:00:00Z","until":"2024-01-02T00:00:00Z","totals":{}}"#,
                "until",
            ),
        ];
        for (json, field) in cases {
            let error = decoded(json).expect_err(json);
            assert_eq!(error.field(), Some(field), "{json}");
        }
    }
}
