//! Request/reply: one loop for every endpoint. Tenant, sizes, admission, reply address, headers and errors are dealt
//! with here, once; an endpoint decodes, calls and encodes.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{HeaderMap, Message};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use uuid::Uuid;

use super::admission::Admission;
use super::connect::Connection;
use super::endpoint_stats::EndpointStats;
use super::headers::{
    ACTOR, CONTENT_TYPE, Headers, MAX_HEADER_BYTES, PURPOSE, REQUEST_ID, WORKER, insert_trace,
};
use super::reply::ReplyRule;
use super::request_limits::{Place, RequestLimits};
use super::{subjects, topology};
use crate::error::{Error, ErrorKind, Result};
use crate::model::TenantId;
use crate::telemetry::Metrics;
use crate::wire::{Encoding, encode, error_response};

/// So long without a message, and nothing more comes.
const SILENCE: Duration = Duration::from_secs(3);
const OVERLOAD_RETRY: Duration = Duration::from_millis(200);

/// One request, as far as it is the same for all endpoints.
#[derive(Debug)]
pub struct Call {
    /// The subject's tenant; `None` for an operator's request.
    pub tenant: Option<TenantId>,
    /// The subject's last token: the tenant's name, or what an operator wants.
    pub last_token: String,
    /// The body's encoding, and the reply's.
    pub encoding: Encoding,
    /// The body.
    pub body: Bytes,
    /// When it arrived.
    pub received: Instant,
    /// The caller's id, or one of ours.
    pub request_id: String,
    /// The largest reply body.
    pub max_reply: usize,
    headers: Headers,
    permit: Option<OwnedSemaphorePermit>,
    limits: Arc<RequestLimits>,
}

impl Call {
    /// The subject's tenant.
    ///
    /// # Errors
    /// `TenantInvalid` for an operator's request.
    pub fn tenant(&self) -> Result<&TenantId> {
        self.tenant.as_ref().ok_or_else(Error::tenant_invalid)
    }

    /// The time budget's end: the caller's wish up to `most`, else `default`; a little is kept for the reply itself.
    ///
    /// # Errors
    /// `InvalidField` for an unusable `Rag-Timeout-Ms`.
    pub fn deadline(&self, default: Duration, most: Duration) -> Result<Instant> {
        let wish = self.headers.timeout_ms()?.map(Duration::from_millis);
        let budget = wish.unwrap_or(default).min(most);
        let kept = (budget / 10).min(Duration::from_millis(20));
        Ok(self.received + (budget - kept))
    }

    /// Checks what is recorded for audit.
    ///
    /// # Errors
    /// `InvalidField`.
    pub fn check_audit(&self) -> Result<()> {
        self.headers.check_audit()
    }

    /// What an endpoint checks once it knows the question: the time budget, what is recorded for audit, and room, in this order.
    /// The place is held until it is dropped.
    ///
    /// # Errors
    /// As [`deadline`](Self::deadline), [`check_audit`](Self::check_audit) and [`admitted`](Self::admitted).
    pub fn begun(&self, default: Duration, most: Duration) -> Result<(Instant, Place)> {
        let deadline = self.deadline(default, most)?;
        self.check_audit()?;
        Ok((deadline, self.admitted()?))
    }

    /// Who asks; empty when not told.
    pub fn actor(&self) -> &str {
        self.headers.audit(ACTOR)
    }

    /// Why; empty when not told.
    pub fn purpose(&self) -> &str {
        self.headers.audit(PURPOSE)
    }

    /// Whether there is room for this request, of its tenant first and of this worker then: asked last, after everything that
    /// is wrong with it was said. The tenant's place is held until the answer is there.
    ///
    /// # Errors
    /// `TenantLimit`, `Overloaded`.
    pub fn admitted(&self) -> Result<Place> {
        let place = match &self.tenant {
            Some(tenant) => self.limits.admit(tenant)?,
            None => Place::default(),
        };
        match self.permit {
            Some(_) => Ok(place),
            None => Err(
                Error::new(ErrorKind::Overloaded, "this worker has too much work")
                    .retry_after(OVERLOAD_RETRY),
            ),
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// The tenant that the subject names.
    Tenant,
    /// An operator: the subject names no tenant, and replies go to no tenant's inbox.
    Operator,
}

/// One kind of request.
#[async_trait]
pub trait Endpoint: Send + Sync + fmt::Debug {
    /// The verb in `rag.<verb>.<tenant>`.
    fn verb(&self) -> &'static str;

    /// Who asks: a tenant, whose name is the subject's last token, unless it says otherwise.
    fn caller(&self) -> Caller {
        Caller::Tenant
    }

    /// Answers a call with the encoded reply.
    ///
    /// # Errors
    /// Any; each becomes an error reply.
    async fn answer(&self, call: &Call) -> Result<Vec<u8>>;
}

/// What a responder is made of.
#[derive(Debug, Clone)]
pub struct ResponderContext {
    /// The connection.
    pub connection: Connection,
    /// Allowed reply addresses.
    pub rule: ReplyRule,
    /// This worker's name in replies.
    pub worker: String,
    /// Instruments.
    pub metrics: Metrics,
    /// What a tenant may ask of this worker.
    pub limits: Arc<RequestLimits>,
    /// Requests at once.
    pub concurrency: usize,
    /// Requests that really run beside each other.
    pub parallelism: usize,
    /// The time budget of a request that brings none.
    pub default_budget: Duration,
}

/// Serves one endpoint.
#[derive(Debug)]
pub struct Responder {
    context: ResponderContext,
    endpoint: Arc<dyn Endpoint>,
    admission: Admission,
    stats: Arc<EndpointStats>,
    subscriber: async_nats::Subscriber,
    tasks: TaskTracker,
}

impl Responder {
    /// Subscribes in the endpoint's queue group.
    ///
    /// # Errors
    /// `DependencyFailed`.
    pub async fn subscribe(context: ResponderContext, endpoint: Arc<dyn Endpoint>) -> Result<Self> {
        let verb = endpoint.verb();
        let subscriber = context
            .connection
            .client
            .queue_subscribe(format!("rag.{verb}.*"), format!("rag-{verb}"))
            .await
            .map_err(|e| Error::dependency("a subscription was refused", e))?;
        // The server knows the subscription before anyone is told that this worker is ready.
        context.connection.round_trip().await;
        let admission = Admission::new(context.concurrency, context.parallelism);
        Ok(Self {
            context,
            stats: Arc::new(EndpointStats::new(verb)),
            endpoint,
            admission,
            subscriber,
            tasks: TaskTracker::new(),
        })
    }

    /// The endpoint's counts, which go on while it runs.
    pub fn stats(&self) -> Arc<EndpointStats> {
        Arc::clone(&self.stats)
    }

    /// Answers until `stop`; then takes no more, and lets what is in work finish for `grace`.
    pub async fn run(mut self, stop: CancellationToken, grace: Duration) {
        loop {
            tokio::select! {
                message = self.subscriber.next() => match message {
                    Some(message) => self.accept(message),
                    None => break,
                },
                () = stop.cancelled() => {
                    self.drained().await;
                    break;
                }
            }
        }
        self.tasks.close();
        let _ = tokio::time::timeout(grace, self.tasks.wait()).await;
    }

    /// What the server has sent us already still arrives, then the stream ends. Without a server it never does: a silence is
    /// the end too.
    async fn drained(&mut self) {
        let _ = tokio::time::timeout(SILENCE, self.leave()).await;
        while let Ok(Some(message)) = tokio::time::timeout(SILENCE, self.subscriber.next()).await {
            self.accept(message);
        }
    }

    /// Ends the subscription without losing what the server has sent us already; the stream ends after that.
    ///
    /// `Subscriber::drain` alone is too early: the client forgets the subscription at its next wake-up, which another
    /// command brings about long before the server has heard of it, and drops what comes in between. So the server is
    /// told first, in a way that leaves the client's side open: a count with more than nine digits is no count to it,
    /// and it unsubscribes at once. Should a server ever take it for a count, this is no worse than a plain drain.
    async fn leave(&mut self) -> std::result::Result<(), async_nats::UnsubscribeError> {
        self.subscriber.unsubscribe_after(u64::MAX).await?;
        self.context.connection.round_trip().await;
        self.subscriber.drain().await
    }

    fn accept(&self, message: Message) {
        let received = Instant::now();
        let headers = Headers::of(message.headers.as_ref());
        let wish = headers
            .timeout_ms()
            .ok()
            .flatten()
            .map(Duration::from_millis);
        let permit = self
            .admission
            .admit(wish.unwrap_or(self.context.default_budget));
        let task = Task {
            context: self.context.clone(),
            endpoint: Arc::clone(&self.endpoint),
            admission: self.admission.clone(),
            stats: Arc::clone(&self.stats),
        };
        self.tasks
            .spawn(task.run(message, headers, received, permit));
    }
}

struct Task {
    context: ResponderContext,
    endpoint: Arc<dyn Endpoint>,
    admission: Admission,
    stats: Arc<EndpointStats>,
}

impl Task {
    async fn run(
        self,
        message: Message,
        headers: Headers,
        received: Instant,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let tenant = match self.endpoint.caller() {
            Caller::Tenant => subjects::request_tenant(&message.subject).map(Some),
            Caller::Operator => Ok(None),
        };
        let Some(address) = message.reply.as_ref().filter(|a| {
            self.context
                .rule
                .allows(a, tenant.as_ref().ok().and_then(Option::as_ref))
        }) else {
            self.context.metrics.reply_refused();
            if self.context.rule.worth_telling() {
                tracing::warn!(
                    endpoint = self.endpoint.verb(),
                    "a request without an allowed reply address gets no reply"
                );
            }
            return;
        };
        let verb = self.endpoint.verb();
        self.context.metrics.request_started(verb);
        let request_id = match headers.request_id() {
            Some(id) => id.as_str().to_owned(),
            None => Uuid::new_v4().simple().to_string(),
        };
        let encoding = headers.encoding().unwrap_or(Encoding::Json);
        let span = tracing::info_span!(
            target: "ragbus",
            "request",
            otel.kind = "server",
            otel.name = verb,
            messaging.system = "nats",
            messaging.destination.template = %format!("rag.{verb}.{{tenant}}"),
            request_id = %request_id,
            trace_id = headers.get("traceparent").and_then(|t| t.get(3..35)).unwrap_or_default(),
        );
        crate::telemetry::set_parent(&span, &headers.trace());
        let admitted = permit.is_some();
        let answered = self
            .answered(&message, headers, tenant, &request_id, received, permit)
            .instrument(span.clone())
            .await;
        if admitted {
            self.admission
                .observe(received.elapsed(), self.admission.in_work());
        }
        let outcome = answered.as_ref().map_or_else(|e| e.kind().name(), |_| "ok");
        self.stats
            .answered(received.elapsed(), answered.as_ref().err());
        let reply = self.reply(answered, &request_id, encoding);
        let sent = span.in_scope(|| self.headed(reply.0, &request_id, encoding));
        let publish = self.context.connection.client.publish_with_headers(
            address.clone(),
            sent,
            reply.1.into(),
        );
        if let Err(error) = publish.await {
            tracing::warn!(error = %error, "a reply could not be sent");
        }
        self.context
            .metrics
            .request_ended(verb, outcome, received.elapsed());
    }

    async fn answered(
        &self,
        message: &Message,
        headers: Headers,
        tenant: Result<Option<TenantId>>,
        request_id: &str,
        received: Instant,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Vec<u8>> {
        let tenant = tenant?;
        let encoding = headers.encoding()?;
        let max_payload = self.context.connection.max_payload();
        headers.check_size(message.payload.len(), topology::max_body(max_payload))?;
        let call = Call {
            tenant,
            last_token: subjects::last_token(&message.subject).to_owned(),
            encoding,
            body: message.payload.clone(),
            received,
            request_id: request_id.to_owned(),
            max_reply: max_payload.saturating_sub(MAX_HEADER_BYTES),
            headers,
            permit,
            limits: Arc::clone(&self.context.limits),
        };
        match AssertUnwindSafe(self.endpoint.answer(&call))
            .catch_unwind()
            .await
        {
            Ok(answer) => answer,
            Err(_) => Err(Error::internal("the request panicked")),
        }
    }

    /// The reply's body, and the error it tells.
    fn reply(
        &self,
        answered: Result<Vec<u8>>,
        request_id: &str,
        encoding: Encoding,
    ) -> (Option<Error>, Vec<u8>) {
        match answered {
            Ok(body) => (None, body),
            Err(error) => {
                tracing::info!(kind = error.kind().name(), request_id, error = %error.chain(), "request refused");
                let body = encode(&error_response(&error, request_id), encoding);
                (Some(error), body)
            }
        }
    }

    fn headed(&self, error: Option<Error>, request_id: &str, encoding: Encoding) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, encoding.content_type());
        headers.insert(WORKER, self.context.worker.as_str());
        headers.insert(REQUEST_ID, request_id);
        insert_trace(&mut headers);
        if let Some(error) = error {
            let first_line = error.message().lines().next().unwrap_or_default();
            headers.insert("Nats-Service-Error", first_line);
            headers.insert(
                "Nats-Service-Error-Code",
                error.kind().code().to_string().as_str(),
            );
            headers.insert("Rag-Error-Kind", error.kind().name());
            if let Some(wait) = error.retry_wait() {
                headers.insert("Rag-Retry-After-Ms", wait.as_millis().to_string().as_str());
            }
        }
        headers
    }
}
