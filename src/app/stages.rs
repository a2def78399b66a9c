//! From the configuration to the retrieval pipeline: which stages have their parts, and what a request gets that says
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{self, Config, FusionKind, LegName};
use crate::crossencoder::{
    CorrectiveConfig, CorrectiveRetriever, PairScorer, RerankingConfig, RerankingRetriever,
};
use crate::expansion::{ExpansionConfig, ExpansionRetriever, StrategyExpander};
use crate::model::{
    CorrectiveMode, ExpansionOptions, ExpansionStrategy, Leg, RerankAgainst, RetrievalOptions,
    StageName,
};
use crate::retrieval::{Layer, RetrievalPipeline, StageFactories, StageFactory};
use crate::spi::{CrossEncoder, FusionMethod, QueryExpander, Retriever, TextGenerator};
use crate::tracking::TrackingRetriever;
use crate::wire::RetrieveRules;

/// Results each sub-query gives to the merge when nothing has to read them all.
const MERGE_DEPTH: u32 = 100;

/// What stages are made of; a part that is absent is not configured.
#[derive(Debug, Clone, Default)]
pub(super) struct StageParts {
    pub(super) cross_encoder: Option<Arc<dyn CrossEncoder>>,
    pub(super) generator: Option<Arc<dyn TextGenerator>>,
}

/// The pipeline around `hybrid`, and what requests may ask of it.
pub(super) fn pipeline(
    config: &Config,
    hybrid: Arc<dyn Retriever>,
    parts: &StageParts,
) -> (RetrievalPipeline, RetrieveRules) {
    let rules = RetrieveRules {
        legs: legs(config),
        rrf: config.retrieval.fusion == FusionKind::Rrf,
        cross_encoder: parts.cross_encoder.is_some(),
        generator: parts.generator.is_some(),
        may_expand: true,
        defaults: defaults(config),
    };
    let scorer = parts.cross_encoder.clone().map(PairScorer::new);
    let factories = StageFactories {
        corrective: scorer.clone().map(|scorer| corrective(config, scorer)),
        expansion: Some(expansion(config, parts.generator.clone())),
        reranking: scorer.map(|scorer| reranking(config, scorer)),
        tracking: (config.tracking.enabled).then(|| tracking(parts.cross_encoder.clone())),
    };
    let pairs = config.inference.max_pairs_per_request;
    let pipeline = RetrievalPipeline::new(hybrid, factories, pairs, &rules.defaults);
    (pipeline, rules)
}

fn corrective(config: &Config, scorer: PairScorer) -> StageFactory {
    let section = &config.corrective;
    let config = CorrectiveConfig {
        pool: section.pool,
        min_correct: section.min_correct,
        depth_factor: section.depth_factor,
    };
    Arc::new(move |options: &RetrievalOptions| -> Layer {
        let (scorer, mode) = (scorer.clone(), options.corrective);
        Box::new(move |inner| Arc::new(CorrectiveRetriever::new(inner, scorer, config, mode)))
    })
}

fn reranking(config: &Config, scorer: PairScorer) -> StageFactory {
    let config = RerankingConfig {
        pool: config.reranking.pool,
    };
    Arc::new(move |options: &RetrievalOptions| -> Layer {
        let (scorer, against) = (scorer.clone(), options.rerank_against);
        Box::new(move |inner| Arc::new(RerankingRetriever::new(inner, scorer, config, against)))
    })
}

fn tracking(cross_encoder: Option<Arc<dyn CrossEncoder>>) -> StageFactory {
    Arc::new(move |_: &RetrievalOptions| -> Layer {
        let cross_encoder = cross_encoder.clone();
        Box::new(move |inner| Arc::new(TrackingRetriever::new(inner, cross_encoder)))
    })
}

fn expansion(config: &Config, generator: Option<Arc<dyn TextGenerator>>) -> StageFactory {
    let expander: Arc<dyn QueryExpander> = Arc::new(StrategyExpander::new(generator));
    let timeout = Duration::from_millis(config.expansion.timeout_ms.into());
    let (rrf_k, pool) = (config.retrieval.rrf_k, config.corrective.pool);
    Arc::new(move |options: &RetrievalOptions| -> Layer {
        let expander = Arc::clone(&expander);
        let graded = options.wants(StageName::Corrective);
        let config = ExpansionConfig {
            options: options.expansion,
            timeout,
            // Grading reads its pool and gives no more than that.
            depth: if graded { pool } else { MERGE_DEPTH },
            rrf_k,
        };
        Box::new(move |inner| Arc::new(ExpansionRetriever::new(inner, expander, config)))
    })
}

/// What a request gets that says nothing.
fn defaults(config: &Config) -> RetrievalOptions {
    let strategy = match config.expansion.strategy {
        config::ExpansionStrategy::None => ExpansionStrategy::None,
        config::ExpansionStrategy::Template => ExpansionStrategy::Template,
        config::ExpansionStrategy::Hyde => ExpansionStrategy::Hyde,
        config::ExpansionStrategy::StepBack => ExpansionStrategy::StepBack,
        config::ExpansionStrategy::HydeStepBack => ExpansionStrategy::HydeStepBack,
    };
    let rerank_against = if strategy.steps_back() {
        RerankAgainst::BestQuery
    } else {
        RerankAgainst::Original
    };
    RetrievalOptions {
        expansion: ExpansionOptions {
            strategy,
            hypotheticals: config.expansion.hypotheticals,
        },
        corrective: match config.corrective.mode {
            config::CorrectiveMode::Off => CorrectiveMode::Off,
            config::CorrectiveMode::Grade => CorrectiveMode::Grade,
            config::CorrectiveMode::Filter => CorrectiveMode::Filter,
        },
        rerank: config.reranking.enabled,
        rerank_against,
        ..RetrievalOptions::default()
    }
}

/// The configured legs.
pub(super) fn legs(config: &Config) -> Vec<Leg> {
    let leg = |name: &LegName| match name {
        LegName::Dense => Leg::Dense,
        LegName::Sparse => Leg::Sparse,
        LegName::Bm25 => Leg::Bm25,
    };
    config.retrieval.legs.iter().map(leg).collect()
}

/// The configured fusion.
pub(super) fn fusion(config: &Config) -> FusionMethod {
    match config.retrieval.fusion {
        FusionKind::Rrf => FusionMethod::Rrf {
            k: config.retrieval.rrf_k,
        },
        FusionKind::Dbsf => FusionMethod::Dbsf,
    }
}
