//! Figures by chance: random records against the plainest computation over them.

use super::{Tracked, at, corpus_of, judgement, one_of, random_record, seeded, tenant};
use crate::model::{
    CorpusRef, DocumentSelection, DocumentStats, FeedbackOutcome, MeanScores, PoorJudgement,
    QuerySelection, QueryStats, ScoreKind, TimeWindow,
};
use crate::testing::MemoryTracker;

const LOW: QuerySelection = QuerySelection::LowRelevance {
    kind: ScoreKind::CrossEncoder,
    below: 0.3,
};

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
