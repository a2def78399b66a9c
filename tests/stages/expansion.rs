//! Expansion: what the language model may do, what the queries become, and the merge.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ragbus::error::{Error, Result};
use ragbus::expansion::{ExpansionConfig, ExpansionRetriever, StrategyExpander};
use ragbus::model::{
    ChunkId, ExpansionOptions, ExpansionStrategy, Grade, Gradings, Origin, Outcome, QueryText,
    Retrieval, RetrievalRequest, RetrievedChunk, ScoreKind, Scored, StageName, StageReport,
};
use ragbus::spi::{Expanded, QueryExpander, RequestContext, Retriever};

use super::fakes::{Says, Writer, ask, chunk, in_time, report, request};

type Answer = dyn Fn(&RetrievalRequest) -> Result<Vec<RetrievedChunk>> + Send + Sync;

/// Answers each sub-query as told and remembers them.
struct Shelf {
    answer: Box<Answer>,
    asked: Mutex<Vec<RetrievalRequest>>,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shelf")
    }
}

fn shelf(
    answer: impl Fn(&RetrievalRequest) -> Result<Vec<RetrievedChunk>> + Send + Sync + 'static,
) -> Arc<Shelf> {
    Arc::new(Shelf {
        answer: Box::new(answer),
        asked: Mutex::default(),
    })
}

impl Shelf {
    fn asked(&self) -> Vec<RetrievalRequest> {
        self.asked.lock().expect("no panic").clone()
    }
}

#[async_trait]
impl Retriever for Shelf {
    fn describe(&self) -> String {
        "hybrid".into()
    }

    async fn retrieve(
        &self,
        request: &RetrievalRequest,
        _context: &RequestContext,
    ) -> Result<Retrieval> {
        self.asked.lock().expect("no panic").push(request.clone());
        let results = (self.answer)(request)?;
        Ok(Retrieval {
            outcome: if results.is_empty() {
                Outcome::NoMatch
            } else {
                Outcome::Ok
            },
            stages: vec![StageReport {
                stage: StageName::Hybrid,
                duration: Duration::ZERO,
                inputs: 0,
                outputs: results.len() as u32,
                model_calls: 2,
            }],
            results,
            gradings: Gradings::default(),
            queries: vec![request.query.clone()],
            degraded: Vec::new(),
            warnings: Vec::new(),
            more: false,
        })
    }
}

fn stage_over(
    inner: Arc<Shelf>,
    expander: Arc<dyn QueryExpander>,
    strategy: ExpansionStrategy,
    hypotheticals: u32,
) -> ExpansionRetriever {
    let config = ExpansionConfig {
        options: ExpansionOptions {
            strategy,
            hypotheticals,
        },
        timeout: Duration::from_secs(5),
        depth: 30,
        rrf_k: 60,
    };
    ExpansionRetriever::new(inner, expander, config)
}

fn stage(
    inner: &Arc<Shelf>,
    writer: &Arc<Writer>,
    strategy: ExpansionStrategy,
    hypotheticals: u32,
) -> ExpansionRetriever {
    let expander = StrategyExpander::new(Some(Arc::clone(writer) as _));
    stage_over(
        Arc::clone(inner),
        Arc::new(expander),
        strategy,
        hypotheticals,
    )
}

fn ones() -> Arc<Shelf> {
    shelf(|_| Ok(vec![chunk(1, 0.0), chunk(2, 0.0)]))
}

fn origins(answer: &Retrieval) -> Vec<Origin> {
    answer.queries.iter().map(|q| q.origin).collect()
}

#[tokio::test]
async fn each_strategy_makes_its_queries_the_original_first() {
    use ExpansionStrategy::{Hyde, HydeStepBack, StepBack, Template};
    use Origin::Original;
    let cases: [(ExpansionStrategy, u32, Vec<Origin>); 4] = [
        (Template, 3, vec![Original, Origin::Template]),
        (
            Hyde,
            3,
            vec![Original, Origin::Hyde, Origin::Hyde, Origin::Hyde],
        ),
        (StepBack, 3, vec![Original, Origin::StepBack]),
        (
            HydeStepBack,
            1,
            vec![Original, Origin::Hyde, Origin::StepBack],
        ),
    ];
    for (strategy, n, expected) in cases {
        let (inner, writer) = (ones(), Arc::new(Writer::default()));
        let stage = stage(&inner, &writer, strategy, n);
        assert_eq!(stage.describe(), "expansion > hybrid");
        let answer = ask(&stage, &request(5)).await;
        assert_eq!(origins(&answer), expected);
        assert!(answer.degraded.is_empty(), "{strategy:?}");
        let asked: Vec<QueryText> = inner.asked().into_iter().map(|r| r.query).collect();
        assert_eq!(asked, answer.queries);
        let own = report(&answer, StageName::Expansion);
        assert_eq!(own.model_calls as usize, writer.asked().len());
        assert_eq!((own.inputs as usize, own.outputs), (2 * asked.len(), 2));
        for query in &answer.queries[1..] {
            // Grading and the lexical legs keep the question, but for a broader one.
            let keeps = query.text == "money loan river";
            assert_eq!(keeps, query.origin != Origin::StepBack);
            assert_eq!(
                query.expanded_text.is_some(),
                query.origin != Origin::StepBack
            );
        }
    }
}

#[tokio::test]
async fn hypothetical_documents_are_asked_for_from_different_angles() {
    let (inner, writer) = (ones(), Arc::new(Writer::default()));
    ask(
        &stage(&inner, &writer, ExpansionStrategy::Hyde, 5),
        &request(5),
    )
    .await;
    let instructions: std::collections::BTreeSet<String> =
        writer.asked().into_iter().map(|g| g.instruction).collect();
    assert_eq!(instructions.len(), 5);
    for generation in writer.asked() {
        assert_eq!(generation.input, "money loan river");
        assert!(
            !generation.instruction.contains("money"),
            "data stays apart"
        );
        assert!(generation.max_tokens <= 300);
    }
}

#[tokio::test]
async fn what_can_not_be_used_leaves_the_original_alone() {
    let useless = [
        Says::Fails,
        Says::Text(""),
        Says::Text(" \n "),
        Says::Text("Money, loan: RIVER?"),
        Says::Text("I'm sorry, I can't help with that."),
    ];
    for says in useless {
        let (inner, writer) = (ones(), Arc::new(Writer::saying([says])));
        let stage = stage(&inner, &writer, ExpansionStrategy::Hyde, 1);
        let answer = ask(&stage, &request(5)).await;
        assert_eq!(origins(&answer), [Origin::Original]);
        assert_eq!(answer.degraded, [StageName::Expansion]);
        // No merge: the inner list as it is, with its own kind.
        assert_eq!(answer.results, [chunk(1, 0.0), chunk(2, 0.0)]);
        assert_eq!(inner.asked()[0].limit, 5);
    }
}

#[tokio::test]
async fn repeated_answers_count_once_and_what_is_left_is_used() {
    let same = || Says::Text("A passage about rivers and their banks.");
    let (inner, writer) = (
        ones(),
        Arc::new(Writer::saying([same(), same(), Says::Fails])),
    );
    let answer = ask(
        &stage(&inner, &writer, ExpansionStrategy::Hyde, 3),
        &request(5),
    )
    .await;
    assert_eq!(origins(&answer), [Origin::Original, Origin::Hyde]);
    assert_eq!(answer.degraded, [StageName::Expansion]);
    // One usable document of three asked for weighs 1.
    assert!((answer.results[0].relevance - 2.0 / 61.0).abs() < 1e-6);
}

#[tokio::test]
async fn a_model_that_never_answers_costs_no_more_than_its_share() {
    let (inner, writer) = (ones(), Arc::new(Writer::saying([Says::Never])));
    let stage = stage(&inner, &writer, ExpansionStrategy::StepBack, 1);
    let started = Instant::now();
    let context = RequestContext::until(started + Duration::from_millis(200));
    let answer = stage.retrieve(&request(5), &context).await;
    assert!(started.elapsed() < Duration::from_millis(180));
    let answer = answer.expect("answered");
    assert_eq!(answer.degraded, [StageName::Expansion]);
    assert_eq!(answer.results.len(), 2);
}

/// Gives queries that no sane expander gives.
#[derive(Debug)]
struct Odd(Vec<QueryText>);

#[async_trait]
impl QueryExpander for Odd {
    async fn expand(&self, _: &QueryText, _: ExpansionOptions, _: Instant) -> Result<Expanded> {
        Ok(Expanded {
            queries: self.0.clone(),
            ..Expanded::default()
        })
    }
}

#[tokio::test]
async fn the_original_is_there_once_and_first_whatever_the_expander_does() {
    let original = QueryText::original("money loan river");
    let other = QueryText {
        text: "broad".into(),
        expanded_text: None,
        origin: Origin::StepBack,
    };
    let sets = [
        (vec![], 1),
        (vec![other.clone(), original.clone(), other.clone()], 2),
        (vec![original.clone(), original.clone()], 1),
        (vec![QueryText::original("something else")], 1),
    ];
    for (queries, expected) in sets {
        let inner = ones();
        let expander = Arc::new(Odd(queries));
        let stage = stage_over(Arc::clone(&inner), expander, ExpansionStrategy::Template, 1);
        let answer = ask(&stage, &request(5)).await;
        assert_eq!(answer.queries.len(), expected);
        assert_eq!(answer.queries[0], original);
        assert_eq!(answer.degraded.is_empty(), expected > 1);
    }
}

#[tokio::test]
async fn lists_merge_by_rank_with_the_weights_of_their_origin() {
    let inner = shelf(|request| {
        Ok(match request.query.origin {
            Origin::Original => vec![chunk(1, 0.0), chunk(2, 0.0)],
            Origin::StepBack => vec![chunk(2, 0.0), chunk(3, 0.0)],
            Origin::Hyde | Origin::Template => vec![chunk(4, 0.0)],
        })
    });
    let writer = Arc::new(Writer::default());
    let stage = stage(&inner, &writer, ExpansionStrategy::HydeStepBack, 2);
    let answer = ask(&stage, &request(10)).await;
    let score = |number: u8| {
        let id = chunk(number, 0.0).chunk_id;
        let found = answer.results.iter().find(|c| c.chunk_id == id);
        found.expect("merged").relevance
    };
    let share = |rank: f32| 1.0 / (60.0 + rank);
    assert!((score(1) - share(1.0)).abs() < 1e-7);
    assert!((score(2) - (share(2.0) + share(1.0))).abs() < 1e-7);
    assert!((score(3) - share(2.0)).abs() < 1e-7);
    assert!((score(4) - share(1.0)).abs() < 1e-7, "two halves make one");
    assert!(
        answer
            .results
            .iter()
            .all(|c| c.score_kind == ScoreKind::Rrf)
    );
    let found_by = &answer.results[0].found_by;
    assert_eq!(found_by.len(), 2, "the question and the broader one");
}

#[tokio::test]
async fn a_merged_chunk_keeps_its_best_grade_and_only_the_originals_score() {
    let inner = shelf(|request| {
        let mut one = chunk(1, 0.0);
        let own = request.query.origin == Origin::Original;
        one.grade = if own {
            Grade::Incorrect
        } else {
            Grade::Correct
        };
        one.vector_similarity = Some(0.5);
        one.signals.cross_encoder_logit = Some(if own { -3.0 } else { 3.0 });
        one.scored = Some(Scored {
            value: if own { -3.0 } else { 3.0 },
            query: request.query.text.clone(),
            model: "m".into(),
        });
        let mut broad = chunk(2, 0.0);
        broad.scored = one.scored.clone();
        // The broader question ranks the first chunk better.
        Ok(if own {
            vec![chunk(3, 0.0), one]
        } else {
            vec![one, broad]
        })
    });
    let writer = Arc::new(Writer::default());
    let answer = ask(
        &stage(&inner, &writer, ExpansionStrategy::StepBack, 1),
        &request(5),
    )
    .await;
    let by = |id: ChunkId| answer.results.iter().find(|c| c.chunk_id == id);
    let one = by(chunk(1, 0.0).chunk_id).expect("merged");
    assert_eq!(one.grade, Grade::Correct);
    assert_eq!(one.scored.as_ref().map(|s| s.value), Some(-3.0));
    assert_eq!(one.signals.cross_encoder_logit, Some(3.0));
    assert_eq!(one.vector_similarity, None);
    let broad = by(chunk(2, 0.0).chunk_id).expect("merged");
    assert_eq!(broad.scored, None, "never reused for the original");
}

#[tokio::test]
async fn a_failed_sub_query_is_left_out_and_all_failed_is_a_failure() {
    let failing = |fails: fn(Origin) -> bool| {
        shelf(move |request| {
            if fails(request.query.origin) {
                Err(Error::dependency("the store failed", "because"))
            } else {
                Ok(vec![chunk(1, 0.0)])
            }
        })
    };
    for fails in [|o| o == Origin::Original, |o| o == Origin::StepBack] {
        let (inner, writer) = (failing(fails), Arc::new(Writer::default()));
        let stage = stage(&inner, &writer, ExpansionStrategy::StepBack, 1);
        let answer = ask(&stage, &request(5)).await;
        assert_eq!(answer.results.len(), 1);
        assert_eq!(answer.degraded, [StageName::Expansion]);
        assert_eq!(answer.queries.len(), 2);
    }
    let (inner, writer) = (failing(|_| true), Arc::new(Writer::default()));
    let stage = stage(&inner, &writer, ExpansionStrategy::StepBack, 1);
    assert!(stage.retrieve(&request(5), &in_time()).await.is_err());
}
