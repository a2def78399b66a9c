//! Figures: by hand on a small corpus, and by chance against the plainest computation.

use super::{
    Tracked, at, corpus_of, document, judgement, one_of, random_record, record, seeded, tenant,
};
use crate::error::ErrorKind;
use crate::model::{
    CorpusRef, DocumentSelection, DocumentStats, FeedbackOutcome, MeanScores, Outcome,
    PoorJudgement, QuerySelection, QueryStats, RetrievalRecord, ScoreKind, StageName, TimeWindow,
    TrackedEnd,
};
use crate::testing::MemoryTracker;

const LOW: QuerySelection = QuerySelection::LowRelevance {
    kind: ScoreKind::CrossEncoder,
    below: 0.3,
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
    assert!(queries(LOW).await.expect("counted").is_empty());

    let totals = tracker.totals(&corpus, window).await.expect("counted");
    assert_eq!(
        (totals.retrievals, totals.failed, totals.degraded),
        (4, 1, 1)
    );
    assert_eq!(
        totals.outcomes,
        [(Outcome::Ok, 2), (Outcome::NoMatch, 1)].into()
    );
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

/// Means may differ in the last bits: sums are taken in another order.
fn close(one: &MeanScores, other: &MeanScores) -> bool {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12;
    one.keys().eq(other.keys()) && one.values().zip(other.values()).all(near)
}

fn same_documents(one: &[DocumentStats], other: &[DocumentStats]) {
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(other) {
        assert!(
            close(&one.mean_scores, &other.mean_scores),
            "{one:?} {other:?}"
        );
        let mean_scores = other.mean_scores.clone();
        assert_eq!(
            &DocumentStats {
                mean_scores,
                ..one.clone()
            },
            other
        );
    }
}

fn same_queries(one: &[QueryStats], other: &[QueryStats]) {
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(other) {
        assert!(
            close(&one.mean_scores, &other.mean_scores),
            "{one:?} {other:?}"
        );
        let mean_scores = other.mean_scores.clone();
        assert_eq!(
            &QueryStats {
                mean_scores,
                ..one.clone()
            },
            other
        );
    }
}

/// Random retrievals and judgements: every figure is what a plain computation over the records says.
pub async fn figures_agree_with_plain_ones(tracker: Tracked) {
    for seed in 0..6 {
        let mut chance = seeded(seed);
        let tenant = tenant();
        let corpora = [corpus_of(&tenant, "docs"), corpus_of(&tenant, "more")];
        let plain: Tracked = std::sync::Arc::new(MemoryTracker::new());
        let mut batch = Vec::new();
        for _ in 0..150 {
            let corpus = &corpora[usize::from(one_of(&mut chance, &[true, false]))];
            batch.push(random_record(&mut chance, corpus));
        }
        for each in [&tracker, &plain] {
            each.record(&batch).await.expect("stored");
        }
        for record in &batch {
            for chunk in record.documents() {
                let outcome = one_of(&mut chance, FeedbackOutcome::ALL);
                if outcome == FeedbackOutcome::HighlyRelevant {
                    continue;
                }
                let given = judgement(record, chunk.document_id.as_str(), outcome);
                for each in [&tracker, &plain] {
                    each.feedback(&tenant, &given).await.expect("stored");
                }
            }
        }
        for window in [
            TimeWindow::ALL,
            TimeWindow::between(at(100), at(700)),
            TimeWindow::between(at(5), at(5)),
        ] {
            agree(&tracker, &plain, &corpora[0], window).await;
        }
    }
}

async fn agree(one: &Tracked, other: &Tracked, corpus: &CorpusRef, window: TimeWindow) {
    let poor = DocumentSelection::PoorlyJudged(PoorJudgement {
        min_retrievals: 5,
        ..PoorJudgement::default()
    });
    for selection in [DocumentSelection::All, poor] {
        for limit in [3, 100] {
            let of = |tracker: &Tracked| {
                let (tracker, corpus) = (tracker.clone(), corpus.clone());
                async move {
                    tracker
                        .document_stats(&corpus, window, selection, limit)
                        .await
                        .expect("counted")
                }
            };
            same_documents(&of(one).await, &of(other).await);
        }
    }
    for selection in [QuerySelection::All, QuerySelection::ZeroHit, LOW] {
        let of = |tracker: &Tracked| {
            let (tracker, corpus) = (tracker.clone(), corpus.clone());
            async move {
                tracker
                    .query_stats(&corpus, window, selection, 5)
                    .await
                    .expect("counted")
            }
        };
        same_queries(&of(one).await, &of(other).await);
    }
    let totals = one.totals(corpus, window).await.expect("counted");
    assert_eq!(totals, other.totals(corpus, window).await.expect("counted"));
    let latencies = one.latencies(corpus, window).await.expect("counted");
    assert_eq!(
        latencies,
        other.latencies(corpus, window).await.expect("counted")
    );
    let shared = one
        .query_documents(corpus, window, 4)
        .await
        .expect("counted");
    assert_eq!(
        shared,
        other
            .query_documents(corpus, window, 4)
            .await
            .expect("counted")
    );
    let judged = one
        .judgements(&corpus.tenant, Some(&corpus.corpus), window, None, 9_999)
        .await;
    let plain = other
        .judgements(&corpus.tenant, Some(&corpus.corpus), window, None, 9_999)
        .await;
    assert_eq!(judged.expect("read"), plain.expect("read"));
}
