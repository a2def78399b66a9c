//! The innermost stage: embeds the query once per leg and asks the store one question.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use super::query_vectors::{self, QueryVectors};
use super::{legs, ranking};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    Gradings, Leg, Outcome, Retrieval, RetrievalRequest, RetrievedChunk, ScoreKind, StageName,
    StageReport,
};
use crate::spi::{
    CollectionInfo, FusionMethod, HybridQuery, LegQuery, ModelSet, ModelSets, RequestContext,
    Retriever, StoreAnswer, VectorStore,
};
use crate::tenancy::TenancyStrategy;

const STAGE: &str = StageName::Hybrid.name();
const LOOKS: u32 = 2;

/// How hybrid retrieval is configured.
#[derive(Debug, Clone)]
pub struct HybridConfig {
    /// The legs that are asked.
    pub legs: Vec<Leg>,
    /// Hits of each leg; never depends on a request's limit.
    pub depth: u32,
    /// How legs are fused.
    pub fusion: FusionMethod,
}

/// What a hybrid retriever is made of.
#[derive(Debug, Clone)]
pub struct HybridParts {
    /// The store.
    pub store: Arc<dyn VectorStore>,
    /// The models that read queries: a corpus is asked with those that it was built with.
    pub models: ModelSets,
    /// Where corpora live.
    pub tenancy: TenancyStrategy,
    /// Configuration.
    pub config: HybridConfig,
}

/// Hybrid retrieval over one store.
#[derive(Debug, Clone)]
pub struct HybridRetriever {
    parts: HybridParts,
}

impl HybridRetriever {
    /// A retriever over these parts.
    pub fn new(parts: HybridParts) -> Self {
        Self { parts }
    }

    /// The corpus' collection and the models that it was built with; `None` when the corpus doesn't exist.
    async fn collection(
        &self,
        request: &RetrievalRequest,
    ) -> Result<Option<(CollectionInfo, &ModelSet)>> {
        let Some(info) = self.parts.store.describe(&request.corpus).await? else {
            return Ok(None);
        };
        let sets = &self.parts.models;
        let models = sets.named(&info.schema.models());
        let models = models.unwrap_or_else(|| sets.current());
        let mut wanted = models.schema();
        if !self.asked(request).iter().any(|(leg, _)| *leg == Leg::Bm25) {
            // How words were read concerns the lexical leg alone.
            wanted.lexical.clone_from(&info.schema.lexical);
        }
        if let Some((what, stored, own)) = info.schema.difference(&wanted) {
            return Err(Error::new(
                ErrorKind::SchemaConflict,
                format!("the corpus was built with {what} {stored}, this worker has {own}"),
            ));
        }
        Ok(Some((info, models)))
    }

    fn query(&self, request: &RetrievalRequest, vectors: &QueryVectors, plan: Plan) -> HybridQuery {
        let legs = vectors.legs.iter().map(|(leg, _, vector)| LegQuery {
            leg: *leg,
            vector: vector.clone(),
            limit: self.depth(request),
            min_score: request.options.min_dense.filter(|_| *leg == Leg::Dense),
        });
        HybridQuery {
            legs: legs.collect(),
            filter: request.filter.clone(),
            fusion: match plan {
                Plan::StoreFusion(method) => Some(method),
                Plan::OneLeg(_) | Plan::OwnFusion(_) => None,
            },
            rank_legs: request.explain || !matches!(plan, Plan::StoreFusion(_)),
        }
    }

    fn asked(&self, request: &RetrievalRequest) -> Vec<(Leg, f32)> {
        legs::asked(&self.parts.config.legs, &request.options.fusion)
    }

    fn depth(&self, request: &RetrievalRequest) -> u32 {
        self.parts
            .config
            .depth
            .saturating_mul(request.depth_factor.max(1))
    }

    /// How this request's legs become one list: by configuration and options only, never by the data.
    fn plan(&self, request: &RetrievalRequest) -> Plan {
        let asked = self.asked(request);
        if let [(leg, _)] = asked[..] {
            return Plan::OneLeg(leg);
        }
        match self.parts.config.fusion {
            FusionMethod::Dbsf => Plan::StoreFusion(FusionMethod::Dbsf),
            FusionMethod::Rrf { k } => {
                let k = request.options.fusion.k.unwrap_or(k);
                if legs::store_can_fuse(&asked) {
                    Plan::StoreFusion(FusionMethod::Rrf { k })
                } else {
                    Plan::OwnFusion(k)
                }
            }
        }
    }

    #[tracing::instrument(target = "ragbus", name = "ask store", skip_all)]
    async fn answered(
        &self,
        request: &RetrievalRequest,
        info: &CollectionInfo,
        vectors: &QueryVectors,
    ) -> Result<Option<Vec<RetrievedChunk>>> {
        if vectors.legs.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let plan = self.plan(request);
        let at = self.parts.tenancy.place(&request.corpus, info.generation);
        let query = self.query(request, vectors, plan);
        match self.parts.store.query(&at, &query).await {
            Ok(answer) => Ok(Some(ranked(request, vectors, plan, answer))),
            // Dropped between the two calls: the caller looks again.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[tracing::instrument(target = "ragbus", name = "hybrid", skip_all)]
    async fn hybrid(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<Retrieval> {
        let started = Instant::now();
        let mut model_calls = 0;
        let mut found = None;
        // Between the two questions a generation may be dropped: then another is served, perhaps of other models.
        for _ in 0..LOOKS {
            let Some((info, models)) = self.collection(request).await? else {
                return Ok(no_corpus(request, started, model_calls));
            };
            let asked = self.asked(request);
            let vectors = query_vectors::of(models, &request.query, asked, context).await?;
            model_calls += vectors.model_calls;
            if let Some(chunks) = self.answered(request, &info, &vectors).await? {
                context.note_models(models.ids());
                found = Some((chunks, vectors.warnings));
                break;
            }
        }
        let Some((chunks, warnings)) = found else {
            return Ok(no_corpus(request, started, model_calls));
        };
        // A leg that gave fewer than it was asked for has no more.
        let deep = chunks.len() >= self.depth(request) as usize;
        let (results, beyond) = ranking::best(chunks, request, context);
        Ok(Retrieval {
            more: deep || beyond,
            warnings,
            ..retrieval(request, results, started, model_calls)
        })
    }
}

/// How legs become one list.
#[derive(Debug, Clone, Copy)]
enum Plan {
    OneLeg(Leg),
    StoreFusion(FusionMethod),
    OwnFusion(u32),
}

fn ranked(
    request: &RetrievalRequest,
    vectors: &QueryVectors,
    plan: Plan,
    answer: StoreAnswer,
) -> Vec<RetrievedChunk> {
    let names: Vec<Leg> = vectors.legs.iter().map(|leg| leg.0).collect();
    match plan {
        Plan::OneLeg(leg) => {
            let hits = answer.legs.into_iter().next().unwrap_or_default();
            ranking::of_one_leg(leg, hits, request.explain)
        }
        Plan::StoreFusion(FusionMethod::Rrf { k }) => {
            ranking::of_store_fusion(answer, &names, ScoreKind::Rrf, Some(k))
        }
        Plan::StoreFusion(FusionMethod::Dbsf) => {
            ranking::of_store_fusion(answer, &names, ScoreKind::Dbsf, None)
        }
        Plan::OwnFusion(k) => {
            let weights = vectors.legs.iter().map(|(leg, weight, _)| (*leg, *weight));
            let legs = weights
                .zip(answer.legs)
                .map(|((leg, weight), hits)| (leg, weight, hits));
            ranking::of_own_fusion(legs.collect(), k, request.explain)
        }
    }
}

fn no_corpus(request: &RetrievalRequest, started: Instant, model_calls: u32) -> Retrieval {
    Retrieval {
        outcome: Outcome::NoCorpus,
        ..retrieval(request, Vec::new(), started, model_calls)
    }
}

fn retrieval(
    request: &RetrievalRequest,
    results: Vec<RetrievedChunk>,
    started: Instant,
    model_calls: u32,
) -> Retrieval {
    let report = StageReport {
        stage: StageName::Hybrid,
        duration: started.elapsed(),
        inputs: 0,
        outputs: u32::try_from(results.len()).unwrap_or(u32::MAX),
        model_calls,
    };
    Retrieval {
        outcome: if results.is_empty() {
            Outcome::NoMatch
        } else {
            Outcome::Ok
        },
        results,
        gradings: Gradings::default(),
        queries: vec![request.query.clone()],
        stages: vec![report],
        degraded: Vec::new(),
        warnings: Vec::new(),
        more: false,
    }
}

#[async_trait]
impl Retriever for HybridRetriever {
    fn describe(&self) -> String {
        STAGE.to_owned()
    }

    async fn retrieve(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<Retrieval> {
        context.check(STAGE)?;
        let budget = tokio::time::Instant::from_std(context.deadline());
        match tokio::time::timeout_at(budget, self.hybrid(request, context)).await {
            Ok(answer) => answer.map_err(|e| e.at_stage(STAGE)),
            Err(_) => Err(Error::timeout(STAGE)),
        }
    }
}
