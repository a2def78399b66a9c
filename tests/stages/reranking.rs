//! Reranking over an inner retriever that answers as told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ragbus::crossencoder::{PairScorer, RerankingConfig, RerankingRetriever};
use ragbus::error::ErrorKind;
use ragbus::model::{Grade, RerankAgainst, RetrievedChunk, ScoreKind, Scored, StageName};
use ragbus::spi::{RequestContext, Retriever};
use ragbus::testing::InMemoryRetriever;

use super::fakes::{
    MODEL, PairModel, ask, chunk, chunks, grades, in_time, logits, report, request,
};

struct Desk {
    stage: RerankingRetriever,
    inner: Arc<InMemoryRetriever>,
    model: Arc<PairModel>,
}

fn desk_of(found: Vec<RetrievedChunk>, model: PairModel, against: RerankAgainst) -> Desk {
    let inner = Arc::new(InMemoryRetriever::returning(found));
    let model = Arc::new(model);
    let scorer = PairScorer::new(Arc::clone(&model) as _);
    let config = RerankingConfig { pool: 4 };
    Desk {
        stage: RerankingRetriever::new(Arc::clone(&inner) as _, scorer, config, against),
        inner,
        model,
    }
}

fn desk(found: Vec<RetrievedChunk>) -> Desk {
    desk_of(found, PairModel::reading(), RerankAgainst::Original)
}

#[tokio::test]
async fn a_pool_is_ordered_by_logit_and_cut() {
    let desk = desk(chunks(&[0.1, -3.0, 7.0, 2.0, 99.0]));
    let answer = ask(&desk.stage, &request(2)).await;
    assert_eq!(logits(&answer), [Some(7.0), Some(2.0)]);
    assert_eq!(desk.inner.asked()[0].limit, 4);
    for chunk in &answer.results {
        assert!(chunk.reranked);
        assert_eq!(chunk.score_kind, ScoreKind::CrossEncoder);
        assert_eq!(
            chunk.signals.cross_encoder_logit,
            chunk.scored.as_ref().map(|s| s.value)
        );
        assert!(chunk.vector_similarity.expect("preserved") < 0.02);
    }
    let own = report(&answer, StageName::Reranking);
    assert_eq!((own.inputs, own.outputs, own.model_calls), (4, 2, 4));
    assert_eq!(
        grades(&answer),
        [Grade::Ungraded; 2],
        "grading is another stage"
    );
    assert_eq!(desk.stage.describe(), "reranking > hybrid");
}

#[tokio::test]
async fn only_missing_scores_are_computed() {
    let mut found = chunks(&[0.1, 0.2, 0.3]);
    found[1].scored = Some(Scored {
        value: 5.0,
        query: "money loan river".into(),
        model: MODEL.into(),
    });
    let desk = desk(found);
    let answer = ask(&desk.stage, &request(3)).await;
    assert_eq!(logits(&answer), [Some(5.0), Some(0.3), Some(0.1)]);
    assert_eq!(desk.model.calls(), 2);
}

/// The guard, the hand-off and the preserved score: each alone triggers nothing of the others.
#[tokio::test]
async fn three_fields_have_three_purposes() {
    // The guard alone: nothing is scored, ordered or promoted again.
    let mut guarded = chunks(&[0.1, 5.0]);
    guarded[0].reranked = true;
    let guard = desk(guarded.clone());
    let answer = ask(&guard.stage, &request(2)).await;
    assert_eq!((answer.results, guard.model.calls()), (guarded, 0));
    // The hand-off alone: no model call, yet ordered, promoted and marked.
    let mut handed = chunks(&[0.1, 0.2]);
    for (chunk, value) in handed.iter_mut().zip([1.0, 2.0]) {
        chunk.scored = Some(Scored {
            value,
            query: "money loan river".into(),
            model: MODEL.into(),
        });
    }
    let hand_off = desk(handed);
    let answer = ask(&hand_off.stage, &request(2)).await;
    assert_eq!(hand_off.model.calls(), 0);
    assert_eq!(logits(&answer), [Some(2.0), Some(1.0)]);
    assert!(
        answer
            .results
            .iter()
            .all(|c| c.reranked && c.vector_similarity.is_some())
    );
    // The preserved score alone: all is scored, and it stays what it was.
    let mut preserved = chunks(&[0.1, 5.0]);
    preserved[1].vector_similarity = Some(0.77);
    let preserving = desk(preserved);
    let answer = ask(&preserving.stage, &request(2)).await;
    assert_eq!(preserving.model.calls(), 2);
    assert_eq!(answer.results[0].vector_similarity, Some(0.77));
    assert!(answer.results.iter().all(|c| c.reranked));
}

#[tokio::test]
async fn the_best_of_the_queries_that_found_a_chunk_decides() {
    let model = || {
        PairModel::new(|query, document| match (query, document) {
            ("broad", d) if d.starts_with("chunk 2") => Ok(6.0),
            ("broad", _) => Ok(1.0),
            (_, d) if d.starts_with("chunk 2") => Ok(-6.0),
            _ => Ok(3.0),
        })
    };
    let mut found = chunks(&[0.0; 3]);
    found[0].found_by = vec!["money loan river".into(), "broad".into()];
    found[1].found_by = vec!["broad".into()];
    let best = desk_of(found.clone(), model(), RerankAgainst::BestQuery);
    let answer = ask(&best.stage, &request(3)).await;
    let top = answer.results[0].scored.as_ref().expect("scored");
    assert_eq!((top.value, top.query.as_str()), (6.0, "broad"));
    let asked = best.model.pairs();
    assert_eq!(asked.iter().filter(|p| p.0 == "broad").count(), 2);
    assert_eq!(asked.len(), 4);
    let own = desk_of(found, model(), RerankAgainst::Original);
    let answer = ask(&own.stage, &request(3)).await;
    assert_eq!(logits(&answer), [Some(3.0), Some(3.0), Some(-6.0)]);
}

#[tokio::test]
async fn a_score_for_another_text_is_never_taken_for_the_original() {
    let mut carrying = chunk(1, 0.5);
    carrying.scored = Some(Scored {
        value: 9.0,
        query: "broad".into(),
        model: MODEL.into(),
    });
    let desk = desk(vec![carrying]);
    let answer = ask(&desk.stage, &request(1)).await;
    assert_eq!(logits(&answer), [Some(0.5)]);
}

#[tokio::test]
async fn what_goes_wrong_leaves_the_inner_order() {
    let found = chunks(&[0.1, 5.0, 6.0]);
    let broken = desk_of(
        found.clone(),
        PairModel::reading().refusing(ErrorKind::DependencyFailed),
        RerankAgainst::Original,
    );
    let answer = ask(&broken.stage, &request(2)).await;
    assert_eq!(answer.results, found[..2]);
    assert_eq!(answer.degraded, [StageName::Reranking]);
    let slow = desk_of(
        found.clone(),
        PairModel::reading().holding(),
        RerankAgainst::Original,
    );
    let end = Instant::now() + Duration::from_millis(50);
    let context = RequestContext::until(end);
    let answer = slow.stage.retrieve(&request(2), &context).await;
    assert!(Instant::now() < end);
    assert_eq!(answer.expect("answered").results, found[..2]);
}

#[tokio::test]
async fn beyond_the_pair_budget_the_best_ranked_are_scored() {
    let desk = desk(chunks(&[1.0, 2.0, 3.0, 4.0]));
    let context = in_time().with_pairs(2);
    let answer = desk.stage.retrieve(&request(4), &context).await;
    let answer = answer.expect("answered");
    assert_eq!(logits(&answer), [Some(2.0), Some(1.0), None, None]);
    assert_eq!(answer.degraded, [StageName::Reranking]);
    assert_eq!(answer.results[2].score_kind, ScoreKind::Rrf);
}
