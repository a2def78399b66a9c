//! The whole table: expansion × corrective × reranking × explain × both tenancy strategies, over the memory store.

use std::sync::Arc;
use std::time::Duration;

use ragbus::adapters::parse::TextParser;
use ragbus::crossencoder::{
    CorrectiveConfig, CorrectiveRetriever, PairScorer, RerankingConfig, RerankingRetriever,
};
use ragbus::error::{Error, ErrorKind};
use ragbus::expansion::{ExpansionConfig, ExpansionRetriever, StrategyExpander};
use ragbus::ingest::{IngestParts, IngestProcessor, NoObserver};
use ragbus::model::{
    CorrectiveMode, DocumentId, ExpansionOptions, ExpansionStrategy, Grade, Leg, Outcome,
    RerankAgainst, Retrieval, RetrievalOptions, RetrievalRequest, ScoreKind, StageName,
};
use ragbus::retrieval::{
    HybridConfig, HybridParts, HybridRetriever, Layer, RetrievalPipeline, StageFactories,
};
use ragbus::spi::{FusionMethod, Retriever};
use ragbus::tenancy::TenancyStrategy;
use ragbus::testing::{MemoryBlobStore, MemoryRegistry, MemoryVectorStore, hash_models};

use crate::word_corpus;

use super::fakes::{PairModel, Writer, ask, corpus, ids, in_time, report, request};

pub struct Desk {
    pub pipeline: RetrievalPipeline,
    model: Arc<PairModel>,
}

/// Shared words decide, as a weak model would: from −3 to 3.
pub fn overlap() -> PairModel {
    PairModel::new(|query, document| {
        let shared = query.split(' ').filter(|w| document.contains(w)).count();
        Ok(shared as f32 * 2.0 - 3.0)
    })
}

pub async fn desk(tenancy: TenancyStrategy, model: PairModel, pairs: u32) -> Desk {
    let store = Arc::new(MemoryVectorStore::new());
    let processor = IngestProcessor::new(IngestParts {
        registry: Arc::new(MemoryRegistry::new()),
        store: Arc::clone(&store) as _,
        models: hash_models(64),
        parser: Arc::new(TextParser),
        blobs: Arc::new(MemoryBlobStore::default()),
        tenancy,
        observer: Arc::new(NoObserver),
    });
    word_corpus::fill(&processor, &corpus()).await;
    let hybrid = HybridRetriever::new(HybridParts {
        store,
        models: hash_models(64),
        tenancy,
        config: HybridConfig {
            legs: vec![Leg::Dense, Leg::Sparse],
            depth: 100,
            fusion: FusionMethod::Rrf { k: 60 },
        },
    });
    let model = Arc::new(model);
    let factories = factories(PairScorer::new(Arc::clone(&model) as _));
    let defaults = RetrievalOptions::default();
    Desk {
        pipeline: RetrievalPipeline::new(Arc::new(hybrid), factories, pairs, &defaults),
        model,
    }
}

fn factories(scorer: PairScorer) -> StageFactories {
    let (corrective, reranking) = (scorer.clone(), scorer);
    let expander = Arc::new(StrategyExpander::new(
        Some(Arc::new(Writer::default()) as _),
    ));
    let graded = CorrectiveConfig {
        pool: 30,
        min_correct: 1,
        depth_factor: 3,
    };
    StageFactories {
        corrective: Some(Arc::new(move |options| -> Layer {
            let (scorer, mode) = (corrective.clone(), options.corrective);
            Box::new(move |inner| Arc::new(CorrectiveRetriever::new(inner, scorer, graded, mode)))
        })),
        expansion: Some(Arc::new(move |options| -> Layer {
            let expander = Arc::clone(&expander);
            let config = ExpansionConfig {
                options: options.expansion,
                timeout: Duration::from_secs(3),
                depth: if options.wants(StageName::Corrective) {
                    30
                } else {
                    100
                },
                rrf_k: 60,
            };
            Box::new(move |inner| Arc::new(ExpansionRetriever::new(inner, expander, config)))
        })),
        reranking: Some(Arc::new(move |options| -> Layer {
            let (scorer, against) = (reranking.clone(), options.rerank_against);
            let config = RerankingConfig { pool: 30 };
            Box::new(move |inner| Arc::new(RerankingRetriever::new(inner, scorer, config, against)))
        })),
        tracking: None,
    }
}

/// Every combination of the stages.
fn table() -> Vec<RetrievalOptions> {
    use ExpansionStrategy::{Hyde, HydeStepBack, None, StepBack, Template};
    let mut table = Vec::new();
    for strategy in [None, Template, Hyde, StepBack, HydeStepBack] {
        for corrective in [
            CorrectiveMode::Off,
            CorrectiveMode::Grade,
            CorrectiveMode::Filter,
        ] {
            for rerank in [false, true] {
                table.push(RetrievalOptions {
                    expansion: ExpansionOptions {
                        strategy,
                        hypotheticals: 2,
                    },
                    corrective,
                    rerank,
                    rerank_against: if strategy.steps_back() {
                        RerankAgainst::BestQuery
                    } else {
                        RerankAgainst::Original
                    },
                    ..RetrievalOptions::default()
                });
            }
        }
    }
    table
}

/// The kind that options lead to, by the rule of `docs/scores.md`.
fn kind(options: &RetrievalOptions) -> ScoreKind {
    if options.rerank {
        ScoreKind::CrossEncoder
    } else if options.wants(StageName::Expansion) {
        ScoreKind::Rrf
    } else if options.wants(StageName::Corrective) {
        ScoreKind::CrossEncoder
    } else {
        ScoreKind::Rrf
    }
}

/// What must hold for every answer.
fn check(answer: &Retrieval, options: &RetrievalOptions, run: u32) {
    let names: Vec<StageName> = answer.stages.iter().map(|r| r.stage).collect();
    let wanted = StageName::ORDER.into_iter().filter(|s| options.wants(*s));
    assert_eq!(
        names,
        wanted.collect::<Vec<_>>(),
        "each stage once, in order"
    );
    for pair in answer.stages.windows(2) {
        assert_eq!(
            pair[0].inputs, pair[1].outputs,
            "what one gives the next gets"
        );
    }
    assert_eq!(answer.stages[0].outputs as usize, answer.results.len());
    let pairs = |stage| {
        let ran = answer.stages.iter().filter(|r| r.stage == stage);
        ran.map(|r| r.model_calls).sum::<u32>()
    };
    let (graded, reranked) = (pairs(StageName::Corrective), pairs(StageName::Reranking));
    assert_eq!(graded + reranked, run, "reported = run");
    let quality = answer.gradings.quality();
    let sum = quality.correct + quality.ambiguous + quality.incorrect;
    assert_eq!(sum, graded, "each graded pair is one model call");
    assert!(answer.degraded.is_empty(), "{:?}", answer.degraded);
    assert!(answer.warnings.is_empty(), "{:?}", answer.warnings);
    for chunk in &answer.results {
        assert_eq!(chunk.score_kind, kind(options));
        assert_eq!(chunk.reranked, options.rerank);
        let probability = chunk.score_kind == ScoreKind::CrossEncoder;
        assert_eq!(chunk.vector_similarity.is_some(), probability);
        assert_eq!(
            chunk.grade == Grade::Ungraded,
            !options.wants(StageName::Corrective)
        );
        if options.corrective == CorrectiveMode::Filter {
            assert_ne!(chunk.grade, Grade::Incorrect);
        }
        if options.rerank {
            assert!(chunk.scored.is_some());
        }
    }
    let falling = answer.results.windows(2);
    falling.for_each(|pair| assert!(pair[0].relevance >= pair[1].relevance));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_combination_holds_what_it_promises() {
    for tenancy in [TenancyStrategy::Separate, TenancyStrategy::Shared] {
        let desk = desk(tenancy, overlap(), 300).await;
        for options in table() {
            for explain in [false, true] {
                let request = RetrievalRequest {
                    options: options.clone(),
                    explain,
                    ..request(10)
                };
                let before = desk.model.calls();
                let answer = ask(&desk.pipeline, &request).await;
                check(&answer, &options, desk.model.calls() - before);
                let pairs = &desk.model.pairs()[before as usize..];
                let distinct: std::collections::BTreeSet<_> = pairs.iter().collect();
                // Contents repeat in this corpus only by chance; what is run twice would repeat as a whole.
                assert!(pairs.len() <= 300 && distinct.len() * 10 >= pairs.len() * 9);
                let again = ask(&desk.pipeline, &request).await;
                assert_eq!(ids(&again), ids(&answer), "equal requests, equal lists");
                let five = RetrievalRequest {
                    limit: 5,
                    ..request.clone()
                };
                let five = ask(&desk.pipeline, &five).await;
                assert_eq!(ids(&five), ids(&answer)[..5.min(answer.results.len())]);
            }
        }
    }
}

#[tokio::test]
async fn a_stack_describes_what_its_options_switch_on() {
    let desk = desk(TenancyStrategy::Separate, overlap(), 300).await;
    assert_eq!(desk.pipeline.describe(), "hybrid");
    for options in table() {
        let wanted = StageName::ORDER.into_iter().filter(|s| options.wants(*s));
        let names: Vec<&str> = wanted.map(StageName::name).collect();
        assert_eq!(desk.pipeline.stack(&options).describe(), names.join(" > "));
    }
}

#[tokio::test]
async fn both_cross_encoder_stages_make_one_pass_over_each_chunk() {
    let desk = desk(TenancyStrategy::Separate, overlap(), 300).await;
    let mut request = request(10);
    request.options.corrective = CorrectiveMode::Grade;
    request.options.rerank = true;
    let answer = ask(&desk.pipeline, &request).await;
    assert_eq!(report(&answer, StageName::Corrective).model_calls, 30);
    assert_eq!(report(&answer, StageName::Reranking).model_calls, 0);
    assert_eq!(desk.model.calls(), 30);
    assert!(
        answer
            .results
            .iter()
            .all(|c| c.grade != Grade::Ungraded && c.reranked)
    );
}

#[tokio::test]
async fn a_budget_of_pairs_holds_for_all_stages_together() {
    for budget in [0, 7, 50, 120] {
        let desk = desk(TenancyStrategy::Separate, overlap(), budget).await;
        for options in table() {
            let before = desk.model.calls();
            let mut request = request(100);
            request.options = options;
            let one = ask(&desk.pipeline, &request).await;
            assert!(desk.model.calls() - before <= budget);
            let two = ask(&desk.pipeline, &request).await;
            assert_eq!(ids(&one), ids(&two), "what is scored is no matter of speed");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_that_several_sub_queries_want_are_paid_for_once() {
    let desk = desk(TenancyStrategy::Separate, overlap(), 300).await;
    let mut request = request(10);
    request.options.expansion = ExpansionOptions {
        strategy: ExpansionStrategy::Hyde,
        hypotheticals: 5,
    };
    request.options.corrective = CorrectiveMode::Grade;
    let answer = ask(&desk.pipeline, &request).await;
    assert_eq!(answer.queries.len(), 6);
    assert!(answer.degraded.is_empty());
    // Six pools of thirty, and far fewer pairs of the one question that all of them grade.
    let ran = report(&answer, StageName::Corrective).model_calls;
    assert!((30..180).contains(&ran), "{ran}");
    // Exactly what is needed is enough, and one less is told.
    for (budget, degraded) in [(ran, false), (ran - 1, true)] {
        let tight = self::desk(TenancyStrategy::Separate, overlap(), budget).await;
        let answer = ask(&tight.pipeline, &request).await;
        assert_eq!(!answer.degraded.is_empty(), degraded, "{budget} of {ran}");
        assert_eq!(tight.model.calls(), budget);
    }
}

#[tokio::test]
async fn a_floor_on_a_degraded_cross_encoder_is_an_error_and_so_is_a_required_stage() {
    let broken = || PairModel::new(|_, _| Err(Error::internal("not finite")));
    let desk = desk(TenancyStrategy::Separate, broken(), 300).await;
    let wanted = |corrective, rerank| {
        let mut request = request(5);
        request.options.corrective = corrective;
        request.options.rerank = rerank;
        request
    };
    for plain in [
        wanted(CorrectiveMode::Filter, false),
        wanted(CorrectiveMode::Off, true),
    ] {
        let answer = ask(&desk.pipeline, &plain).await;
        assert_eq!((answer.results.len(), answer.degraded.len()), (5, 1));
        assert_eq!(answer.results[0].score_kind, ScoreKind::Rrf);
        let mut floor = plain.clone();
        floor.options.min_relevance = Some(0.1);
        let mut required = plain.clone();
        required.options.require = answer.degraded.clone();
        for request in [floor, required] {
            let error = desk.pipeline.retrieve(&request, &in_time()).await;
            let error = error.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::RequiredStageDegraded);
            assert_eq!(error.stage(), Some(answer.degraded[0].name()));
        }
    }
}

#[tokio::test]
async fn a_floor_on_probabilities_cuts_by_them() {
    let desk = desk(TenancyStrategy::Separate, overlap(), 300).await;
    let mut request = request(30);
    request.options.rerank = true;
    let all = ask(&desk.pipeline, &request).await;
    let floor = all.results[3].relevance;
    request.options.min_relevance = Some(floor);
    let above = ask(&desk.pipeline, &request).await;
    assert!(above.results.len() >= 4 && above.results.len() < all.results.len());
    assert!(above.results.iter().all(|c| c.relevance >= floor));
    request.options.min_relevance = Some(1.0);
    let none = ask(&desk.pipeline, &request).await;
    assert_eq!(none.outcome, Outcome::NoRelevantContext);
    assert!(none.results.is_empty());
}

#[tokio::test]
async fn chunks_of_one_document_are_limited_in_the_final_list_too() {
    let desk = desk(TenancyStrategy::Separate, overlap(), 300).await;
    for options in table() {
        let mut request = request(20);
        request.options = options;
        request.options.max_chunks_per_document = Some(1);
        let answer = ask(&desk.pipeline, &request).await;
        let mut seen = std::collections::HashSet::new();
        let fresh = |id: &DocumentId| seen.insert(id.clone());
        assert!(answer.results.iter().map(|c| &c.document_id).all(fresh));
    }
}
