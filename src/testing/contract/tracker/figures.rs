//! Figures that were worked out by hand, on a small corpus.

use super::{Tracked, at, corpus_of, document, judgement, record, tenant};
use crate::error::ErrorKind;
use crate::model::{
    CorpusRef, DocumentSelection, FeedbackOutcome, MeanScores, Outcome, PoorJudgement,
    QuerySelection, RetrievalRecord, ScoreKind, StageName, TimeWindow, TrackedEnd,
};

fn scored(mut record: RetrievalRecord, kind: ScoreKind, scores: &[f32]) -> RetrievalRecord {
    for (chunk, score) in record.chunks.iter_mut().zip(scores) {
        chunk.relevance = *score;
        chunk.score_kind = kind;
    }
    record
}

/// What four retrievals in a window, and two outside, add up to.
async fn small_corpus(tracker: &Tracked) -> CorpusRef {
    let corpus = corpus_of(&tenant(), "docs");
    let cross = ScoreKind::CrossEncoder;
    let first = record(&corpus, 10, "oil", &["a", "b", "a"]);
    let first = scored(first, cross, &[0.5, 0.25, 0.125]);
    let mut second = scored(record(&corpus, 11, "oil", &["a"]), cross, &[0.25]);
    second.degraded = vec![StageName::Reranking, StageName::Hybrid];
    let third = record(&corpus, 12, "gas", &[]);
    let mut failed = record(&corpus, 13, "gas", &[]);
    failed.end = TrackedEnd::Failed(ErrorKind::Timeout);
    let outside = [
        record(&corpus, 9, "oil", &["z"]),
        record(&corpus, 20, "oil", &["z"]),
    ];
    let batch = [first.clone(), second.clone(), third, failed];
    tracker.record(&batch).await.expect("stored");
    tracker.record(&outside).await.expect("stored");
    use FeedbackOutcome::{NotRelevant, PartiallyRelevant, Relevant};
    for (record, id, outcome) in [
        (&first, "a", NotRelevant),
        (&second, "a", PartiallyRelevant),
        (&first, "b", Relevant),
        (&outside[0], "z", NotRelevant),
    ] {
        let given = judgement(record, id, outcome);
        tracker
            .feedback(&corpus.tenant, &given)
            .await
            .expect("stored");
    }
    corpus
}

/// Figures that were worked out by hand.
pub async fn a_small_corpus_adds_up(tracker: Tracked) {
    let corpus = small_corpus(&tracker).await;
    let window = TimeWindow::between(at(10), at(20));
    let documents = tracker
        .document_stats(&corpus, window, DocumentSelection::All, 9)
        .await;
    let documents = documents.expect("counted");
    let ids: Vec<_> = documents.iter().map(|d| d.document_id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    let a = &documents[0];
    assert_eq!((a.retrievals, a.first_at, a.last_at), (2, at(10), at(11)));
    let means = MeanScores::from([(ScoreKind::CrossEncoder, 0.375)]);
    assert_eq!(a.mean_scores, means);
    assert_eq!((a.feedback.bad(), a.feedback.total()), (2, 2));
    let poor = DocumentSelection::PoorlyJudged(PoorJudgement {
        min_retrievals: 2,
        min_feedback: 2,
        min_bad_share: 1.0,
    });
    let poor = tracker
        .document_stats(&corpus, window, poor, 9)
        .await
        .expect("counted");
    assert_eq!(poor, documents[..1]);

    let queries = |selection| tracker.query_stats(&corpus, window, selection, 9);
    let all = queries(QuerySelection::All).await.expect("counted");
    let seen: Vec<_> = all
        .iter()
        .map(|q| (q.query.as_str(), q.retrievals, q.failed, q.zero_hits))
        .collect();
    assert_eq!(seen, [("gas", 2, 1, 1), ("oil", 2, 0, 0)]);
    assert_eq!(all[1].mean_scores, means);
    let none = queries(QuerySelection::ZeroHit).await.expect("counted");
    assert_eq!(none, all[..1]);
    let low = QuerySelection::LowRelevance {
        kind: ScoreKind::CrossEncoder,
        below: 0.376,
    };
    assert_eq!(queries(low).await.expect("counted"), all[1..]);
    let lower = QuerySelection::LowRelevance {
        kind: ScoreKind::CrossEncoder,
        below: 0.375,
    };
    assert!(queries(lower).await.expect("counted").is_empty());
}

/// Totals and latencies of the same corpus.
pub async fn a_small_corpus_sums_up(tracker: Tracked) {
    let corpus = small_corpus(&tracker).await;
    let window = TimeWindow::between(at(10), at(20));
    let totals = tracker.totals(&corpus, window).await.expect("counted");
    assert_eq!(
        (totals.retrievals, totals.failed, totals.degraded),
        (4, 1, 1)
    );
    assert_eq!(
        totals.outcomes,
        [(Outcome::Ok, 2), (Outcome::NoMatch, 1)].into()
    );
    assert_eq!(totals.failures, [(ErrorKind::Timeout, 1)].into());
    assert_eq!((totals.zero_hits(), totals.zero_hit_share()), (1, 0.25));
    assert_eq!(
        totals.degraded_stages,
        [(StageName::Reranking, 1), (StageName::Hybrid, 1)].into()
    );
    assert_eq!(
        (totals.returned, totals.dropped, totals.degraded_share()),
        (4, 0, 0.25)
    );
    assert_eq!(
        (totals.first_at, totals.last_at),
        (Some(at(10)), Some(at(13)))
    );
    assert_eq!(
        (totals.feedback.not_relevant, totals.feedback.total()),
        (1, 3)
    );
    let latencies = tracker.latencies(&corpus, window).await.expect("counted");
    let seen: Vec<_> = latencies
        .iter()
        .map(|l| (l.stage, l.samples, l.p50, l.p99, l.max))
        .collect();
    let hybrid = Some(StageName::Hybrid);
    assert_eq!(
        seen,
        [
            (None, 4, 2_000, 2_000, 2_000),
            (hybrid, 4, 1_500, 1_500, 1_500)
        ]
    );
}

/// Questions come with every document their replies held, the most frequent first.
pub async fn questions_share_documents(tracker: Tracked) {
    let corpus = corpus_of(&tenant(), "docs");
    let batch = [
        record(&corpus, 1, "oil", &["a", "b"]),
        record(&corpus, 2, "oil", &["c"]),
        record(&corpus, 3, "gas", &["a"]),
        record(&corpus, 4, "none", &[]),
        record(&corpus, 5, "air", &["a"]),
    ];
    tracker.record(&batch).await.expect("stored");
    let shared = tracker
        .query_documents(&corpus, TimeWindow::ALL, 2)
        .await
        .expect("read");
    let seen: Vec<_> = shared
        .iter()
        .map(|q| (q.query.as_str(), q.retrievals))
        .collect();
    assert_eq!(seen, [("oil", 2), ("air", 1)]);
    assert_eq!(shared[0].documents, ["a", "b", "c"].map(document).into());
}
