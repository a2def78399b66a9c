//! The innermost stage: embeds the query once per leg and asks the store one question.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use super::{legs, ranking};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    CollectionSchema, Leg, Outcome, Retrieval, RetrievalQuality, RetrievalRequest, RetrievedChunk,
    ScoreKind, StageName, StageReport,
};
use crate::spi::{
    CollectionInfo, DenseEncoder, Encoded, FusionMethod, HybridQuery, LegQuery, LegVector,
    Priority, RequestContext, Retriever, Role, SparseEncoder, StoreAnswer, TextEncoding,
    VectorStore,
};
use crate::tenancy::TenancyStrategy;

const STAGE: &str = StageName::Hybrid.name();

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
    /// The dense model.
    pub dense: Arc<dyn DenseEncoder>,
    /// The sparse model.
    pub sparse: Arc<dyn SparseEncoder>,
    /// Where corpora live.
    pub tenancy: TenancyStrategy,
    /// What collections have to be built with.
    pub schema: CollectionSchema,
    /// Configuration.
    pub config: HybridConfig,
}

/// Hybrid retrieval over one store.
#[derive(Debug, Clone)]
pub struct HybridRetriever {
    parts: HybridParts,
}

/// The query's vectors and what making them cost.
struct QueryVectors {
    legs: Vec<(Leg, f32, LegVector)>,
    model_calls: u32,
    warnings: Vec<String>,
}

impl HybridRetriever {
    /// A retriever over these parts.
    pub fn new(parts: HybridParts) -> Self {
        Self { parts }
    }

    /// The corpus' collection; `None` when the corpus doesn't exist.
    async fn collection(&self, request: &RetrievalRequest) -> Result<Option<CollectionInfo>> {
        let Some(info) = self.parts.store.describe(&request.corpus).await? else {
            return Ok(None);
        };
        if let Some((what, stored, own)) = info.schema.difference(&self.parts.schema) {
            return Err(Error::new(
                ErrorKind::SchemaConflict,
                format!("the corpus was built with {what} {stored}, this worker has {own}"),
            ));
        }
        Ok(Some(info))
    }

    #[tracing::instrument(target = "ragbus", name = "embed", skip_all)]
    async fn vectors(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<QueryVectors> {
        let asked = legs::asked(&self.parts.config.legs, &request.options.fusion);
        let wants = |leg| asked.iter().any(|(l, _)| *l == leg);
        let query = &request.query;
        let dense_text = query.expanded_text.as_ref().unwrap_or(&query.text);
        let (dense, sparse) = tokio::try_join!(
            self.dense(wants(Leg::Dense).then_some(dense_text), context),
            self.sparse(wants(Leg::Sparse).then_some(&query.text), context)
        )?;
        let truncated = [
            dense.as_ref().map_or(0, |e| e.truncated),
            sparse.as_ref().map_or(0, |e| e.truncated),
        ];
        let model_calls = u32::from(dense.is_some()) + u32::from(sparse.is_some());
        let mut vectors = Vec::new();
        for (leg, weight) in asked {
            let vector = match leg {
                Leg::Dense => dense.as_ref().map(|e| LegVector::Dense(e.vector.clone())),
                // An empty sparse vector finds nothing: the leg is skipped.
                Leg::Sparse => sparse
                    .as_ref()
                    .filter(|e| !e.vector.is_empty())
                    .map(|e| LegVector::Sparse(e.vector.clone())),
                Leg::Bm25 => None,
            };
            vectors.extend(vector.map(|vector| (leg, weight, vector)));
        }
        Ok(QueryVectors {
            legs: vectors,
            model_calls,
            warnings: truncation_warning(truncated),
        })
    }

    async fn dense(
        &self,
        text: Option<&String>,
        context: &RequestContext,
    ) -> Result<Option<Encoded<Vec<f32>>>> {
        match text {
            None => Ok(None),
            Some(text) => {
                let encoded = self
                    .parts
                    .dense
                    .encode_dense(encoding(text, context))
                    .await?;
                only(encoded).map(Some)
            }
        }
    }

    async fn sparse(
        &self,
        text: Option<&String>,
        context: &RequestContext,
    ) -> Result<Option<Encoded<crate::model::SparseVector>>> {
        match text {
            None => Ok(None),
            Some(text) => {
                let encoded = self
                    .parts
                    .sparse
                    .encode_sparse(encoding(text, context))
                    .await?;
                only(encoded).map(Some)
            }
        }
    }

    fn query(&self, request: &RetrievalRequest, vectors: &QueryVectors, plan: Plan) -> HybridQuery {
        let legs = vectors.legs.iter().map(|(leg, _, vector)| LegQuery {
            leg: *leg,
            vector: vector.clone(),
            limit: self.parts.config.depth,
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

    /// How this request's legs become one list: by configuration and options only, never by the data.
    fn plan(&self, request: &RetrievalRequest) -> Plan {
        let asked = legs::asked(&self.parts.config.legs, &request.options.fusion);
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
        let Some(info) = self.collection(request).await? else {
            return Ok(retrieval(
                request,
                Outcome::NoCorpus,
                Vec::new(),
                started,
                0,
                Vec::new(),
            ));
        };
        let vectors = self.vectors(request, context).await?;
        let mut found = self.answered(request, &info, &vectors).await?;
        if found.is_none() {
            found = match self.collection(request).await? {
                Some(info) => self.answered(request, &info, &vectors).await?,
                None => None,
            };
        }
        let Some(chunks) = found else {
            let calls = vectors.model_calls;
            return Ok(retrieval(
                request,
                Outcome::NoCorpus,
                Vec::new(),
                started,
                calls,
                Vec::new(),
            ));
        };
        let any = !chunks.is_empty();
        let floor = request.options.min_relevance;
        let relevant = chunks
            .into_iter()
            .filter(|c| floor.is_none_or(|floor| c.relevance >= floor));
        let most = request.options.max_chunks_per_document;
        let results = ranking::cut(relevant.collect(), most, request.limit);
        let outcome = match (any, results.is_empty()) {
            (false, _) => Outcome::NoMatch,
            (true, true) => Outcome::NoRelevantContext,
            (true, false) => Outcome::Ok,
        };
        Ok(retrieval(
            request,
            outcome,
            results,
            started,
            vectors.model_calls,
            vectors.warnings,
        ))
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

fn retrieval(
    request: &RetrievalRequest,
    outcome: Outcome,
    results: Vec<RetrievedChunk>,
    started: Instant,
    model_calls: u32,
    warnings: Vec<String>,
) -> Retrieval {
    let report = StageReport {
        stage: StageName::Hybrid,
        duration: started.elapsed(),
        inputs: 0,
        outputs: u32::try_from(results.len()).unwrap_or(u32::MAX),
        model_calls,
    };
    Retrieval {
        outcome,
        results,
        quality: RetrievalQuality::default(),
        queries: vec![request.query.clone()],
        stages: vec![report],
        degraded: Vec::new(),
        warnings,
    }
}

fn truncation_warning(truncated: [u32; 2]) -> Vec<String> {
    let most = truncated[0].max(truncated[1]);
    if most == 0 {
        return Vec::new();
    }
    vec![format!(
        "the query is longer than a model: {most} tokens were cut off"
    )]
}

fn encoding(text: &str, context: &RequestContext) -> TextEncoding {
    TextEncoding {
        texts: vec![text.to_owned()],
        role: Role::Query,
        priority: Priority::Interactive,
        deadline: Some(context.deadline()),
    }
}

fn only<V>(encoded: Vec<Result<Encoded<V>>>) -> Result<Encoded<V>> {
    encoded
        .into_iter()
        .next()
        .unwrap_or_else(|| Err(Error::internal("an encoder returned too few vectors")))
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
