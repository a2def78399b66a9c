//! What tracked retrievals add up to, for the wire; within the message limit.

use std::collections::BTreeSet;

use prost::Message;
use serde::Serialize;

use super::encoding::{Encoding, encode};
use super::reply::{outcome, score_kind};
use super::timestamp::WireTimestamp;
use super::v1;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    CorpusName, DocumentId, DocumentStats, FeedbackCounts, FeedbackOutcome, JudgedQuery,
    LatencyStats, MeanScores, QueryStats, TimeWindow, TrackedQuery, TrackingTotals,
};
use crate::spi::DocumentEntry;

/// Questions, and documents, of a cluster that are named: a cluster has to fit into a message however long its questions are.
const NAMED: usize = 10;

/// Encodes a reply of rows that fits into `limit` bytes: rows are left out from the end until it does. `build` gets the rows that
/// are kept, and whether some are not.
///
/// # Errors
/// `TooLarge` when not even the first row fits.
pub fn encode_rows<T, M: Message + Serialize>(
    rows: &[T],
    encoding: Encoding,
    limit: usize,
    build: impl Fn(&[T], bool) -> M,
) -> Result<Vec<u8>> {
    let mut kept = rows.len();
    loop {
        let body = encode(&build(&rows[..kept], kept < rows.len()), encoding);
        if body.len() <= limit {
            return Ok(body);
        }
        if kept <= 1 {
            let message = "the answer doesn't fit into a message";
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        kept = (kept * limit / body.len()).clamp(1, kept - 1);
    }
}

fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

fn mean_scores(scores: &MeanScores) -> Vec<v1::MeanScore> {
    let one = |(kind, mean): (&_, &f64)| v1::MeanScore {
        kind: score_kind(*kind).into(),
        mean: *mean,
    };
    scores.iter().map(one).collect()
}

fn judgement_counts(counts: &FeedbackCounts) -> v1::JudgementCounts {
    v1::JudgementCounts {
        not_relevant: small(counts.not_relevant),
        partially_relevant: small(counts.partially_relevant),
        relevant: small(counts.relevant),
        highly_relevant: small(counts.highly_relevant),
    }
}

pub(super) fn asked(query: &TrackedQuery) -> v1::AskedQuery {
    v1::AskedQuery {
        text: query.as_str().to_owned(),
        hashed: query.is_hash(),
    }
}

/// The totals of one corpus.
pub fn corpus_totals(corpus: &CorpusName, totals: &TrackingTotals) -> v1::CorpusTotals {
    let failures = totals.failures.iter().map(|(kind, n)| v1::FailureCount {
        kind: kind.name().to_owned(),
        count: small(*n),
    });
    let outcomes = totals.outcomes.iter().map(|(kind, n)| v1::OutcomeCount {
        outcome: outcome(*kind).into(),
        count: small(*n),
    });
    let stages = totals.degraded_stages.iter().map(|(s, n)| v1::StageCount {
        stage: s.name().to_owned(),
        count: small(*n),
    });
    v1::CorpusTotals {
        corpus: corpus.as_str().to_owned(),
        retrievals: small(totals.retrievals),
        failed: small(totals.failed),
        failures: failures.collect(),
        outcomes: outcomes.collect(),
        degraded: small(totals.degraded),
        degraded_share: totals.degraded_share(),
        degraded_stages: stages.collect(),
        zero_hits: small(totals.zero_hits()),
        zero_hit_share: totals.zero_hit_share(),
        returned_chunks: small(totals.returned),
        dropped_chunks: small(totals.dropped),
        first_at: totals.first_at.map(WireTimestamp::from),
        last_at: totals.last_at.map(WireTimestamp::from),
        feedback: Some(judgement_counts(&totals.feedback)),
    }
}

/// One slice of time.
pub fn time_slice(window: TimeWindow, totals: &TrackingTotals) -> v1::TimeSlice {
    v1::TimeSlice {
        since: window.since.map(WireTimestamp::from),
        until: window.until.map(WireTimestamp::from),
        retrievals: small(totals.retrievals),
        failed: small(totals.failed),
        zero_hits: small(totals.zero_hits()),
        degraded: small(totals.degraded),
    }
}

/// Percentiles in milliseconds.
pub fn latency(stats: &LatencyStats) -> v1::Latency {
    v1::Latency {
        stage: stats.stage.map_or("", |stage| stage.name()).to_owned(),
        samples: small(stats.samples),
        p50_ms: millis(stats.p50),
        p90_ms: millis(stats.p90),
        p95_ms: millis(stats.p95),
        p99_ms: millis(stats.p99),
        max_ms: millis(stats.max),
    }
}

/// One document of replies.
pub fn document_use(stats: &DocumentStats) -> v1::DocumentUse {
    v1::DocumentUse {
        document_id: stats.document_id.as_str().to_owned(),
        retrievals: small(stats.retrievals),
        first_at: Some(stats.first_at.into()),
        last_at: Some(stats.last_at.into()),
        mean_scores: mean_scores(&stats.mean_scores),
        feedback: Some(judgement_counts(&stats.feedback)),
    }
}

/// One document that no reply held.
pub fn unretrieved(entry: &DocumentEntry) -> v1::UnretrievedDocument {
    v1::UnretrievedDocument {
        document_id: entry.document_id.as_str().to_owned(),
        chunks: entry.chunks,
        updated_at: Some(entry.updated_at.into()),
    }
}

/// One question.
pub fn query_use(stats: &QueryStats) -> v1::QueryUse {
    v1::QueryUse {
        query: Some(asked(&stats.query)),
        retrievals: small(stats.retrievals),
        failed: small(stats.failed),
        zero_hits: small(stats.zero_hits),
        first_at: Some(stats.first_at.into()),
        last_at: Some(stats.last_at.into()),
        mean_scores: mean_scores(&stats.mean_scores),
    }
}

/// Questions that led to the same documents, with how often they were asked, what they share and how alike they are.
pub fn query_cluster(
    queries: &[TrackedQuery],
    retrievals: u64,
    shared: &BTreeSet<DocumentId>,
    similarity: f64,
) -> v1::QueryCluster {
    let named = shared.iter().take(NAMED).map(|id| id.as_str().to_owned());
    v1::QueryCluster {
        queries: queries.iter().take(NAMED).map(asked).collect(),
        retrievals: small(retrievals),
        shared_documents: named.collect(),
        similarity,
        query_count: small(queries.len() as u64),
        shared_document_count: small(shared.len() as u64),
    }
}

/// One judgement. Who judged is no tenant's business here: operators find it in the audit.
pub fn judgement(judged: &JudgedQuery) -> v1::Judgement {
    use v1::judgement_outcome::Kind;
    let outcome = match judged.feedback.outcome {
        FeedbackOutcome::NotRelevant => Kind::NotRelevant,
        FeedbackOutcome::PartiallyRelevant => Kind::PartiallyRelevant,
        FeedbackOutcome::Relevant => Kind::Relevant,
        FeedbackOutcome::HighlyRelevant => Kind::HighlyRelevant,
    };
    v1::Judgement {
        retrieval_id: judged.feedback.retrieval_id.to_string(),
        corpus: judged.corpus.as_str().to_owned(),
        retrieved_at: Some(judged.retrieved_at.into()),
        query: Some(asked(&judged.query)),
        document_id: judged.feedback.document_id.as_str().to_owned(),
        outcome: outcome.into(),
        judged_at: Some(judged.feedback.at.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::decode;

    fn reply(rows: &[String], cut: bool) -> v1::StatsResponse {
        let row = |id: &String| v1::UnretrievedDocument {
            document_id: id.clone(),
            ..v1::UnretrievedDocument::default()
        };
        v1::StatsResponse {
            unretrieved: rows.iter().map(row).collect(),
            next_cursor: rows.last().cloned().filter(|_| cut).unwrap_or_default(),
            truncated: cut,
            ..v1::StatsResponse::default()
        }
    }

    #[test]
    fn a_cluster_names_some_and_counts_all() {
        let queries: Vec<TrackedQuery> = (0..99)
            .map(|n| TrackedQuery::Text(format!("{n}{}", "\u{1}".repeat(8_000))))
            .collect();
        let shared = (0..99).map(|n| DocumentId::new(&n.to_string()).expect("valid"));
        let cluster = query_cluster(&queries, 7, &shared.collect(), 0.5);
        assert_eq!(
            (cluster.query_count, cluster.shared_document_count),
            (99, 99)
        );
        assert_eq!(
            (cluster.queries.len(), cluster.shared_documents.len()),
            (10, 10)
        );
        assert!(encode(&cluster, Encoding::Json).len() < 600_000);
    }

    #[test]
    fn rows_are_left_out_from_the_end_until_the_reply_fits() {
        let rows: Vec<String> = (0..200)
            .map(|n| format!("{n}{}", "x".repeat(n * 3)))
            .collect();
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            let whole = encode_rows(&rows, encoding, 1_000_000, reply).expect("fits");
            let whole: v1::StatsResponse = decode(&whole, encoding).expect("valid");
            assert!(!whole.truncated && whole.unretrieved.len() == 200);
            let body = encode_rows(&rows, encoding, 9_000, reply).expect("fits");
            assert!(body.len() <= 9_000);
            let cut: v1::StatsResponse = decode(&body, encoding).expect("valid");
            let kept = cut.unretrieved.len();
            assert!(cut.truncated && kept > 1 && kept < 200);
            assert_eq!(cut.next_cursor, rows[kept - 1]);
            let error = encode_rows(&rows, encoding, 3, reply).expect_err("no room");
            assert_eq!(error.kind(), ErrorKind::TooLarge);
        }
        assert!(encode_rows(&[], Encoding::Json, 1_000, reply).is_ok());
    }
}
