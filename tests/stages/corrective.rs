//! Corrective grading over an inner retriever that answers as told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ragbus::crossencoder::{CorrectiveConfig, CorrectiveRetriever, PairScorer};
use ragbus::error::{Error, ErrorKind};
use ragbus::model::{CorrectiveMode, Grade, Outcome, RetrievedChunk, ScoreKind, Scored, StageName};
use ragbus::spi::{RequestContext, Retriever};
use ragbus::testing::InMemoryRetriever;

use super::fakes::{MODEL, PairModel, ask, chunk, chunks, grades, ids, logits, report, request};

struct Desk {
    stage: CorrectiveRetriever,
    inner: Arc<InMemoryRetriever>,
    model: Arc<PairModel>,
}

fn desk_of(
    found: Vec<RetrievedChunk>,
    model: PairModel,
    mode: CorrectiveMode,
    config: CorrectiveConfig,
) -> Desk {
    let inner = Arc::new(InMemoryRetriever::returning(found));
    let model = Arc::new(model);
    let scorer = PairScorer::new(Arc::clone(&model) as _);
    Desk {
        stage: CorrectiveRetriever::new(Arc::clone(&inner) as _, scorer, config, mode),
        inner,
        model,
    }
}

const CONFIG: CorrectiveConfig = CorrectiveConfig {
    pool: 4,
    min_correct: 1,
    depth_factor: 3,
};

fn desk(found: Vec<RetrievedChunk>, mode: CorrectiveMode) -> Desk {
    desk_of(found, PairModel::reading(), mode, CONFIG)
}

#[tokio::test]
async fn grades_follow_the_thresholds_inclusively_and_logits_the_order() {
    let desk = desk(chunks(&[-1.0, 0.0, 1.0, -5.0]), CorrectiveMode::Grade);
    let answer = ask(&desk.stage, &request(4)).await;
    assert_eq!(
        logits(&answer),
        [Some(1.0), Some(0.0), Some(-1.0), Some(-5.0)]
    );
    use Grade::{Ambiguous, Correct, Incorrect};
    assert_eq!(grades(&answer), [Correct, Ambiguous, Incorrect, Incorrect]);
    let quality = answer.gradings.quality();
    assert_eq!(
        (quality.correct, quality.ambiguous, quality.incorrect),
        (1, 1, 2)
    );
    assert!(!quality.corrected && answer.degraded.is_empty());
    for chunk in &answer.results {
        assert_eq!(chunk.score_kind, ScoreKind::CrossEncoder);
        assert!((0.0..=1.0).contains(&chunk.relevance));
        assert!(chunk.vector_similarity.expect("preserved") < 0.02);
        assert!(!chunk.reranked);
    }
    assert_eq!(report(&answer, StageName::Corrective).model_calls, 4);
    assert_eq!(desk.stage.describe(), "corrective > hybrid");
}

#[tokio::test]
async fn equal_logits_stand_by_chunk_id_and_saturation_makes_no_ties() {
    let desk = desk(chunks(&[90.0, 95.0, 90.0]), CorrectiveMode::Grade);
    let answer = ask(&desk.stage, &request(3)).await;
    assert!(answer.results.iter().all(|c| c.relevance == 1.0));
    assert_eq!(logits(&answer)[0], Some(95.0));
    let tied = &ids(&answer)[1..];
    assert!(tied[0] < tied[1]);
}

#[tokio::test]
async fn filtering_drops_what_is_incorrect_and_only_that() {
    let mixed = desk(chunks(&[-2.0, 0.5, 3.0, -0.9]), CorrectiveMode::Filter);
    let answer = ask(&mixed.stage, &request(4)).await;
    assert_eq!(logits(&answer), [Some(3.0), Some(0.5), Some(-0.9)]);
    assert_eq!(answer.gradings.quality().incorrect, 1);
    let wrong = desk(chunks(&[-2.0, -3.0]), CorrectiveMode::Filter);
    let answer = ask(&wrong.stage, &request(4)).await;
    assert_eq!(answer.outcome, Outcome::NoRelevantContext);
    assert_eq!(answer.gradings.quality().incorrect, 2);
    let right = desk(chunks(&[2.0, 3.0]), CorrectiveMode::Filter);
    assert_eq!(ask(&right.stage, &request(4)).await.results.len(), 2);
}

#[tokio::test]
async fn one_chunk_none_and_a_limit_beyond_the_corpus() {
    let one = desk(chunks(&[0.2]), CorrectiveMode::Grade);
    let answer = ask(&one.stage, &request(100)).await;
    assert_eq!(
        (answer.results.len(), answer.gradings.quality().corrected),
        (1, false)
    );
    let none = desk(Vec::new(), CorrectiveMode::Filter);
    let answer = ask(&none.stage, &request(5)).await;
    assert_eq!(answer.outcome, Outcome::NoMatch);
    assert_eq!(none.model.calls(), 0);
    assert!(answer.degraded.is_empty() && answer.warnings.is_empty());
    assert_eq!(none.inner.asked().len(), 1);
}

#[tokio::test]
async fn too_little_that_is_correct_fetches_deeper_once_and_grades_only_what_is_new() {
    let found = [-2.0, -2.0, -2.0, 0.0, -2.0, 4.0, -2.0, 5.0];
    let desk = desk(chunks(&found), CorrectiveMode::Grade);
    let answer = ask(&desk.stage, &request(2)).await;
    assert_eq!(logits(&answer), [Some(5.0), Some(4.0)]);
    let asked = desk.inner.asked();
    let depths: Vec<(u32, u32)> = asked.iter().map(|r| (r.limit, r.depth_factor)).collect();
    assert_eq!(depths, [(4, 1), (12, 3)]);
    assert_eq!(desk.model.calls(), 8, "each pair once");
    let quality = answer.gradings.quality();
    assert!(quality.corrected);
    assert_eq!(
        quality.correct + quality.ambiguous + quality.incorrect,
        8,
        "every graded pair counts"
    );
    let (hybrid, own) = (
        report(&answer, StageName::Hybrid),
        report(&answer, StageName::Corrective),
    );
    assert_eq!((hybrid.outputs, own.inputs, own.outputs), (12, 12, 2));
}

#[tokio::test]
async fn enough_that_is_correct_or_nothing_more_to_find_is_no_second_fetch() {
    let enough = desk(chunks(&[1.0, -2.0, -2.0, -2.0, 9.0]), CorrectiveMode::Grade);
    assert!(!ask(&enough.stage, &request(2)).await.gradings.corrected);
    assert_eq!(enough.inner.asked().len(), 1);
    let all = desk(chunks(&[-2.0, -2.0]), CorrectiveMode::Grade);
    assert!(!ask(&all.stage, &request(2)).await.gradings.corrected);
    let off = CorrectiveConfig {
        min_correct: 0,
        ..CONFIG
    };
    let never = desk_of(
        chunks(&[-2.0; 9]),
        PairModel::reading(),
        CorrectiveMode::Grade,
        off,
    );
    ask(&never.stage, &request(2)).await;
    assert_eq!(never.inner.asked().len(), 1);
}

#[tokio::test]
async fn a_failing_model_leaves_the_chunks_as_they_were_and_says_so() {
    let broken: [PairModel; 3] = [
        PairModel::new(|_, _| Err(Error::internal("the model's output isn't finite"))),
        PairModel::reading().refusing(ErrorKind::Overloaded),
        PairModel::new(|_, _| Ok(f32::NAN)),
    ];
    for model in broken {
        let found = chunks(&[-2.0, 3.0, -2.0, -2.0, -2.0]);
        let desk = desk_of(found.clone(), model, CorrectiveMode::Filter, CONFIG);
        let answer = ask(&desk.stage, &request(3)).await;
        assert_eq!(answer.results, found[..3]);
        assert_eq!(answer.degraded, [StageName::Corrective]);
        assert_eq!(answer.gradings.quality(), Default::default());
        assert_eq!(
            desk.inner.asked().len(),
            1,
            "no second fetch without grades"
        );
    }
}

#[tokio::test]
async fn a_pair_that_fails_alone_stays_behind_ungraded() {
    let model = PairModel::new(|_, document| match document {
        d if d.starts_with("chunk 2 ") => Err(Error::internal("not finite")),
        d if d.starts_with("chunk 3 ") => Ok(2.0),
        _ => Ok(-2.0),
    });
    let desk = desk_of(chunks(&[0.0; 3]), model, CorrectiveMode::Grade, CONFIG);
    let answer = ask(&desk.stage, &request(3)).await;
    assert_eq!(logits(&answer), [Some(2.0), Some(-2.0), None]);
    assert_eq!(answer.results[2].grade, Grade::Ungraded);
    assert_eq!(answer.results[2].score_kind, ScoreKind::Rrf);
    assert_eq!(answer.degraded, [StageName::Corrective]);
}

#[tokio::test]
async fn a_model_that_takes_too_long_is_given_up_in_time() {
    let found = chunks(&[1.0, 2.0]);
    let desk = desk_of(
        found.clone(),
        PairModel::reading().holding(),
        CorrectiveMode::Filter,
        CONFIG,
    );
    let end = Instant::now() + Duration::from_millis(50);
    let context = RequestContext::until(end);
    let answer = desk.stage.retrieve(&request(2), &context).await;
    assert!(Instant::now() < end, "the reply still comes in time");
    let answer = answer.expect("answered");
    assert_eq!(answer.results, found);
    assert_eq!(answer.degraded, [StageName::Corrective]);
}

#[tokio::test]
async fn the_pair_budget_goes_to_the_best_ranked_and_a_second_fetch_gets_the_rest() {
    let found = chunks(&[-2.0; 20]);
    let desk = desk(found.clone(), CorrectiveMode::Grade);
    let context = super::fakes::in_time().with_pairs(6);
    let answer = desk.stage.retrieve(&request(12), &context).await;
    let answer = answer.expect("answered");
    assert_eq!(desk.model.calls(), 6);
    let read: Vec<String> = desk.model.pairs().into_iter().map(|p| p.1).collect();
    assert_eq!(
        read,
        found[..6]
            .iter()
            .map(|c| c.content.clone())
            .collect::<Vec<_>>()
    );
    assert_eq!(answer.results.len(), 12);
    assert_eq!(logits(&answer).iter().flatten().count(), 6);
    assert!(logits(&answer)[..6].iter().all(Option::is_some));
    assert_eq!(answer.degraded, [StageName::Corrective]);
    assert!(answer.warnings.iter().any(|w| w.contains("pair budget")));
}

#[tokio::test]
async fn a_carried_score_counts_for_its_own_query_and_model_only() {
    let scored = |query: &str, model: &str| Scored {
        value: 9.0,
        query: query.into(),
        model: model.into(),
    };
    let cases = [
        (scored("money loan river", MODEL), 0),
        (scored("another question", MODEL), 1),
        (scored("money loan river", "another model"), 1),
    ];
    for (score, calls) in cases {
        let mut carrying = chunk(1, 0.5);
        carrying.scored = Some(score);
        let desk = desk(vec![carrying], CorrectiveMode::Grade);
        let answer = ask(&desk.stage, &request(1)).await;
        assert_eq!(desk.model.calls(), calls);
        let expected = if calls == 0 { 9.0 } else { 0.5 };
        assert_eq!(logits(&answer), [Some(expected)]);
    }
}

#[tokio::test]
async fn a_model_without_calibration_is_told_of_in_every_reply() {
    let model = PairModel::reading().uncalibrated();
    let desk = desk_of(chunks(&[5.0, -5.0]), model, CorrectiveMode::Grade, CONFIG);
    let answer = ask(&desk.stage, &request(2)).await;
    assert!(answer.warnings.iter().any(|w| w.contains("not calibrated")));
    assert_eq!(grades(&answer), [Grade::Correct, Grade::Incorrect]);
}
