//! A caller's side of the wire, for the command line and benchmarks: any NATS client can do the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::context::PublishErrorKind;
use async_nats::{HeaderMap, RequestErrorKind, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use uuid::Uuid;

use super::connect::Connection;
use super::headers::{CONTENT_TYPE, Headers, REQUEST_ID, TIMEOUT};
use super::{blobs, subjects, topology};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{IngestResult, JobId, RequestId, TenantId};
use crate::wire::{Encoding, decode, encode, job_result, v1};

/// A duplicate for a job that was never sent means that somebody else used the id: a few new ones are tried.
const NEW_IDS: usize = 3;
const BACKLOG_RETRY: Duration = Duration::from_millis(200);
/// A backlog that has no room for so long has nobody who works on it.
const BACKLOG_PATIENCE: Duration = Duration::from_secs(600);

/// A client acting for one tenant.
#[derive(Debug, Clone)]
pub struct Client {
    connection: Connection,
    tenant: TenantId,
    /// Publishers that wait for room in the tenant's backlog.
    waiting: Arc<AtomicUsize>,
}

/// A job that the stream has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReceipt {
    /// The job's name.
    pub job_id: JobId,
    /// Its stream sequence.
    pub sequence: u64,
}

/// A reply: the answer, or the error the worker told.
#[derive(Debug, Clone)]
pub enum Reply<M> {
    /// The answer.
    Answer(M),
    /// The worker's error.
    Refused(v1::ErrorResponse),
}

impl Client {
    /// A client over a connection.
    pub fn new(connection: Connection, tenant: TenantId) -> Self {
        Self {
            connection,
            tenant,
            waiting: Arc::default(),
        }
    }

    /// Whether jobs wait for room in the tenant's backlog.
    pub fn backlog_is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Asks `rag.<verb>.<tenant>` and waits up to `budget`.
    ///
    /// # Errors
    /// `DependencyFailed` when no worker listens, `Timeout` when none answers in time.
    pub async fn request<Q, A>(
        &self,
        verb: &str,
        question: &Q,
        budget: Duration,
    ) -> Result<Reply<A>>
    where
        Q: prost::Message + serde::Serialize,
        A: prost::Message + Default + serde::de::DeserializeOwned,
    {
        let subject = subjects::request(verb, &self.tenant);
        ask(&self.connection, subject, question, budget).await
    }

    /// Subscribes to every result of this tenant, from now on.
    ///
    /// # Errors
    /// `DependencyFailed`.
    pub async fn results(&self) -> Result<Results> {
        let subject = format!("rag.result.{}.*", self.tenant);
        let failed = |e| Error::dependency("results can't be subscribed to", e);
        let subscriber = self
            .connection
            .client
            .subscribe(subject)
            .await
            .map_err(failed)?;
        self.connection
            .client
            .flush()
            .await
            .map_err(|e| Error::dependency("results can't be subscribed to", e))?;
        Ok(Results { subscriber })
    }

    /// Publishes a job and waits until the stream has it; waits for room while the tenant's backlog is full. A document's
    /// body that is too large for a message goes into the tenant's bucket.
    ///
    /// # Errors
    /// `TooLarge` for a job that is too large all the same, `NotFound` without a bucket, `TenantLimit` when the backlog stays
    /// full, `DependencyFailed` otherwise.
    pub async fn publish(&self, job: &v1::IngestRequest) -> Result<JobReceipt> {
        let name = Uuid::new_v4().simple().to_string();
        let mut body = Bytes::from(encode(job, Encoding::Protobuf));
        if body.len() > topology::max_body(self.connection.max_payload()) {
            body = encode(&self.with_body_aside(job).await?, Encoding::Protobuf).into();
        }
        for _ in 0..NEW_IDS {
            let ack = self.publish_once(&name, body.clone()).await?;
            if !ack.duplicate {
                let request = RequestId::parse(&name);
                let job_id = JobId::derive(request.as_ref(), ack.sequence);
                return Ok(JobReceipt {
                    job_id,
                    sequence: ack.sequence,
                });
            }
        }
        Err(Error::internal("every message id was taken"))
    }

    /// The job with its document's body in the tenant's bucket, because it is too large for a message.
    async fn with_body_aside(&self, job: &v1::IngestRequest) -> Result<v1::IngestRequest> {
        use v1::ingest_request::Operation;
        use v1::put_document::Body;
        let mut job = job.clone();
        let Some(Operation::PutDocument(put)) = &mut job.operation else {
            return Err(Error::new(
                ErrorKind::TooLarge,
                "the job is larger than the ingest stream takes; put fewer chunks at once, or the document itself",
            ));
        };
        let body = match &put.body {
            Some(Body::Text(text)) => text.as_bytes(),
            Some(Body::Data(data)) => data,
            Some(Body::Blob(_)) | None => {
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    "the job is larger than the ingest stream takes, even without its body",
                ));
            }
        };
        let blob = blobs::put(&self.connection, &self.tenant, body).await?;
        put.body = Some(Body::Blob(v1::Blob {
            bucket: blob.bucket,
            name: blob.name,
            sha256: blob.sha256,
            size: blob.size,
        }));
        Ok(job)
    }

    async fn publish_once(
        &self,
        name: &str,
        body: Bytes,
    ) -> Result<async_nats::jetstream::publish::PublishAck> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, Encoding::Protobuf.content_type());
        headers.insert(REQUEST_ID, name);
        headers.insert("Nats-Msg-Id", Uuid::new_v4().simple().to_string().as_str());
        let started = Instant::now();
        let mut queued = None;
        loop {
            let subject = subjects::ingest(&self.tenant);
            let publish = self.connection.jetstream.publish_with_headers(
                subject,
                headers.clone(),
                body.clone(),
            );
            let error = match publish.await {
                Ok(ack) => match ack.await {
                    Ok(ack) => return Ok(ack),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let error = published(error);
            if error.kind() != ErrorKind::TenantLimit || started.elapsed() > BACKLOG_PATIENCE {
                return Err(error);
            }
            queued.get_or_insert_with(|| Queued::new(&self.waiting));
            tokio::time::sleep(BACKLOG_RETRY).await;
        }
    }
}

/// Asks `rag.admin.<verb>`, as an operator: `RAGBUS_ACTOR`, or whoever is logged in.
///
/// # Errors
/// As [`Client::request`].
pub async fn ask_operator<Q, A>(
    connection: &Connection,
    verb: &str,
    question: &Q,
    budget: Duration,
) -> Result<Reply<A>>
where
    Q: prost::Message + serde::Serialize,
    A: prost::Message + Default + serde::de::DeserializeOwned,
{
    let actor = std::env::var("RAGBUS_ACTOR").or_else(|_| std::env::var("USER"));
    let actor = actor.unwrap_or_default();
    ask_as(
        connection,
        subjects::admin(verb),
        question,
        budget,
        Some(&actor),
    )
    .await
}

async fn ask<Q, A>(
    connection: &Connection,
    subject: String,
    question: &Q,
    budget: Duration,
) -> Result<Reply<A>>
where
    Q: prost::Message + serde::Serialize,
    A: prost::Message + Default + serde::de::DeserializeOwned,
{
    ask_as(connection, subject, question, budget, None).await
}

async fn ask_as<Q, A>(
    connection: &Connection,
    subject: String,
    question: &Q,
    budget: Duration,
    actor: Option<&str>,
) -> Result<Reply<A>>
where
    Q: prost::Message + serde::Serialize,
    A: prost::Message + Default + serde::de::DeserializeOwned,
{
    let told = subject.clone();
    let mut headers = HeaderMap::new();
    // A name that can't stand in a header is not told.
    if let Some(actor) = actor.filter(|a| !a.is_empty() && a.chars().all(|c| c.is_ascii_graphic()))
    {
        headers.insert("Rag-Actor", actor);
    }
    headers.insert(CONTENT_TYPE, Encoding::Protobuf.content_type());
    headers.insert(TIMEOUT, budget.as_millis().max(1).to_string().as_str());
    let request = async_nats::Request::new()
        .payload(encode(question, Encoding::Protobuf).into())
        .headers(headers)
        // The worker answers in the budget; the way there and back comes on top.
        .timeout(Some(budget + Duration::from_millis(500)));
    let reply = connection
        .client
        .send_request(subject, request)
        .await
        .map_err(|e| match e.kind() {
            RequestErrorKind::NoResponders => Error::dependency(
                format!("no worker serves {told}: is one running and ready?"),
                e,
            ),
            RequestErrorKind::TimedOut => {
                Error::new(ErrorKind::Timeout, "no reply in time").caused_by(e)
            }
            _ => Error::dependency("the request failed", e),
        })?;
    let headers = Headers::of(reply.headers.as_ref());
    let encoding = headers.encoding()?;
    if headers.get("Nats-Service-Error-Code").is_some() {
        return Ok(Reply::Refused(decode(&reply.payload, encoding)?));
    }
    Ok(Reply::Answer(decode(&reply.payload, encoding)?))
}

/// One publisher that waits for room; it is counted until it is dropped.
struct Queued(Arc<AtomicUsize>);

impl Queued {
    fn new(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(waiting))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the server said about a job, so that a person can read it.
fn published(error: async_nats::jetstream::context::PublishError) -> Error {
    let text = format!("{error:?} {error}");
    if text.contains("10077") || text.contains("maximum messages per subject") {
        let message = "the tenant's backlog is full (10077): workers have to catch up first";
        return Error::new(ErrorKind::TenantLimit, message).caused_by(error);
    }
    let too_large = text.contains("10054")
        || text.contains("message size exceeds")
        || text.contains("MaxPayloadExceeded");
    if too_large {
        let message = "the job is larger than the ingest stream takes";
        return Error::new(ErrorKind::TooLarge, message).caused_by(error);
    }
    match error.kind() {
        PublishErrorKind::StreamNotFound => {
            Error::dependency("the ingest stream doesn't exist: run `ragbus setup`", error)
        }
        PublishErrorKind::TimedOut => {
            Error::new(ErrorKind::Timeout, "the ingest stream doesn't answer").caused_by(error)
        }
        _ => Error::dependency("the job could not be published", error),
    }
}

/// Results as they come.
#[derive(Debug)]
pub struct Results {
    subscriber: Subscriber,
}

impl Results {
    /// The next result; `None` when the connection is closed. Messages that are no results are passed over.
    pub async fn next(&mut self) -> Option<IngestResult> {
        while let Some(message) = self.subscriber.next().await {
            let headers = Headers::of(message.headers.as_ref());
            let decoded = headers
                .encoding()
                .and_then(|encoding| decode::<v1::IngestResult>(&message.payload, encoding))
                .and_then(job_result);
            match decoded {
                Ok(result) => return Some(result),
                Err(error) => tracing::debug!(error = %error.chain(), "not a result"),
            }
        }
        None
    }
}
