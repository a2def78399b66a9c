//! `rag.retrieve.<tenant>`: decode, ask the stack, encode within the message limit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::responder::{Call, Endpoint};
use crate::error::Result;
use crate::model::{LimitBook, ModelIds, Outcome, Retrieval, RetrievalRequest};
use crate::spi::{RequestContext, Retriever};
use crate::telemetry::Metrics;
use crate::wire::{
    EXPANSION_STRATEGY, RetrieveRules, decode_retrieve, encode_within, retrieve_response,
};

/// What the endpoint is made of.
#[derive(Debug, Clone)]
pub struct RetrieveParts {
    /// The outermost stage.
    pub retriever: Arc<dyn Retriever>,
    /// What requests may ask for.
    pub rules: RetrieveRules,
    /// Who may have queries expanded.
    pub limits: Arc<LimitBook>,
    /// The models named in replies.
    pub models: ModelIds,
    /// The time budget of a request that brings none.
    pub default_budget: Duration,
    /// The most a request may ask for.
    pub max_budget: Duration,
    /// Instruments.
    pub metrics: Metrics,
}

/// The retrieval endpoint.
#[derive(Debug)]
pub struct RetrieveEndpoint {
    parts: RetrieveParts,
    /// The rules of tenants that may not expand.
    unexpanded: RetrieveRules,
}

impl RetrieveEndpoint {
    /// An endpoint over these parts.
    pub fn new(parts: RetrieveParts) -> Self {
        let unexpanded = RetrieveRules {
            may_expand: false,
            ..parts.rules.clone()
        };
        Self { parts, unexpanded }
    }

    fn decoded(&self, call: &Call) -> Result<RetrievalRequest> {
        let tenant = call.tenant()?;
        let may_expand = self.parts.limits.of(tenant).may_expand();
        let rules = if may_expand {
            &self.parts.rules
        } else {
            &self.unexpanded
        };
        let decoded = decode_retrieve(tenant, &call.body, call.encoding, rules);
        if let Err(error) = &decoded
            && !may_expand
            && error.field() == Some(EXPANSION_STRATEGY)
        {
            self.parts.metrics.limited("expansion");
        }
        decoded
    }

    /// The models of this answer: the corpus' own, where it was built with earlier ones than the worker's.
    fn models(&self, context: &RequestContext) -> ModelIds {
        let mut models = self.parts.models.clone();
        if let Some(own) = context.models() {
            models.dense.clone_from(&own.dense);
            models.sparse.clone_from(&own.sparse);
        }
        models
    }

    fn note(&self, retrieval: &Retrieval) {
        let outcome = match retrieval.outcome {
            Outcome::Ok => "ok",
            Outcome::NoCorpus => "no_corpus",
            Outcome::NoMatch => "no_match",
            Outcome::NoRelevantContext => "no_relevant_context",
        };
        self.parts.metrics.retrieval(outcome);
        for report in &retrieval.stages {
            let name = report.stage.name();
            self.parts
                .metrics
                .stage(name, report.duration, report.model_calls);
        }
        for stage in &retrieval.degraded {
            self.parts.metrics.degraded(stage.name());
        }
        tracing::info!(outcome, results = retrieval.results.len(), "retrieved");
    }
}

#[async_trait]
impl Endpoint for RetrieveEndpoint {
    fn verb(&self) -> &'static str {
        "retrieve"
    }

    async fn answer(&self, call: &Call) -> Result<Vec<u8>> {
        let parts = &self.parts;
        let request = self.decoded(call)?;
        let deadline = call.deadline(parts.default_budget, parts.max_budget)?;
        call.check_audit()?;
        let _place = call.admitted()?;
        let context = RequestContext::until(deadline);
        let retrieval = parts.retriever.retrieve(&request, &context).await?;
        self.note(&retrieval);
        let id = Uuid::now_v7().to_string();
        let models = self.models(&context);
        let response = retrieve_response(&request, &retrieval, &id, &call.request_id, &models);
        Ok(encode_within(response, call.encoding, call.max_reply))
    }
}
