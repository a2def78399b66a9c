//! `rag.retrieve.<tenant>`: decode, ask the stack, encode within the message limit, and leave a record of it.
//!
//! With tracking, every request that could be decoded leaves exactly one record: the answered ones, whatever their outcome, and the
//! failed ones with the kind of their error, be it a header that is wrong (422), a tenant over its limit (429), a worker without
//! room (503), a stage, the store or a model that failed, or a time budget that was used up (504). What could not be decoded (400,
//! 403, 413, 415, and 422 for a field of the body) and what has no reply address that is allowed leaves none: there is no question
//! to record. Under `required` the reply waits for the record's acknowledgement; an error gives nothing out, so it never waits.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::FutureExt;
use uuid::Uuid;

use super::responder::{Call, Endpoint};
use super::tracking_publisher::TrackingPublisher;
use crate::error::{Error, Result};
use crate::model::{
    LimitBook, ModelIds, Outcome, Retrieval, RetrievalId, RetrievalRequest, Timestamp, TrackedEnd,
};
use crate::spi::{RequestContext, Retriever, Trail};
use crate::telemetry::Metrics;
use crate::tracking::{Asked, record};
use crate::wire::{
    EXPANSION_STRATEGY, RetrieveRules, decode_retrieve, encode_within, options_json,
    retrieve_response,
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
    /// This worker's name in records.
    pub worker: String,
    /// Takes the records; `None` = nothing is tracked.
    pub tracking: Option<TrackingPublisher>,
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

/// A reply, and what its record has to say of it.
struct Answered {
    body: Vec<u8>,
    omitted: u32,
    outcome: Outcome,
    models: ModelIds,
    deadline: Instant,
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

    async fn attempted(
        &self,
        call: &Call,
        request: &RetrievalRequest,
        id: RetrievalId,
        trail: Option<Arc<Trail>>,
    ) -> Result<Answered> {
        let parts = &self.parts;
        let (deadline, _place) = call.begun(parts.default_budget, parts.max_budget)?;
        let context = RequestContext::until(deadline);
        let context = match trail {
            Some(trail) => context.traced(trail),
            None => context,
        };
        let retrieval = parts.retriever.retrieve(request, &context).await?;
        self.note(&retrieval);
        let models = self.models(&context);
        let id = id.to_string();
        let response = retrieve_response(request, &retrieval, &id, &call.request_id, &models);
        let (body, omitted) = encode_within(response, call.encoding, call.max_reply);
        Ok(Answered {
            body,
            omitted,
            outcome: retrieval.outcome,
            models,
            deadline,
        })
    }

    async fn tracked(
        &self,
        call: &Call,
        request: &RetrievalRequest,
        id: RetrievalId,
        tracking: &TrackingPublisher,
    ) -> Result<Vec<u8>> {
        let (at, trail) = (Timestamp::now(), Arc::<Trail>::default());
        let attempt = self.attempted(call, request, id, Some(Arc::clone(&trail)));
        let attempted = match AssertUnwindSafe(attempt).catch_unwind().await {
            Ok(attempted) => attempted,
            Err(_) => Err(Error::internal("the request panicked")),
        };
        let (end, omitted) = match &attempted {
            Ok(answered) => (TrackedEnd::Answered(answered.outcome), answered.omitted),
            Err(error) => (TrackedEnd::Failed(error.kind()), 0),
        };
        let models = attempted.as_ref().map(|answered| answered.models.clone());
        let asked = Asked {
            id,
            at,
            request_id: call.request_id.clone(),
            worker: self.parts.worker.clone(),
            actor: call.actor().to_owned(),
            purpose: call.purpose().to_owned(),
            options: options_json(request),
            models: models.unwrap_or_else(|_| self.parts.models.clone()),
        };
        let record = record(
            asked,
            request,
            &trail,
            end,
            (omitted, call.received.elapsed()),
        );
        match attempted {
            Ok(answered) => {
                tracking.keep(record, answered.deadline).await?;
                Ok(answered.body)
            }
            Err(error) => {
                tracking.offer(record);
                Err(error)
            }
        }
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
        let request = self.decoded(call)?;
        let id = RetrievalId::from_u128(Uuid::now_v7().as_u128());
        match &self.parts.tracking {
            Some(tracking) => self.tracked(call, &request, id, tracking).await,
            None => {
                let answered = self.attempted(call, &request, id, None).await?;
                Ok(answered.body)
            }
        }
    }
}
