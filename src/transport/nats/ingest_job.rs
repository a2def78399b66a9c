//! One ingest job: decode, carry out, publish the result, acknowledge.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::dead_letter::{self, DeadLetter};
use super::disposition::{
    Disposition, MAX_ATTEMPTS, SHORTEST_DELAY, disposition, not_before, retry_delay,
};
use super::gate::Gate;
use super::headers::{CONTENT_TYPE, Headers, REQUEST_ID, WORKER, insert_trace};
use super::ingest_consumer::IngestContext;
use super::{subjects, topology};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{CorpusRef, IngestJob, IngestResult, IngestStatus, JobError, JobId, TenantId};
use crate::spi::IngestStep;
use crate::wire::{DecodedIngest, Encoding, Names, decode_ingest, encode, ingest_result};

/// A sign of life is sent this often; three fit into the server's patience.
const PROGRESS: Duration = Duration::from_secs(10);
const PROBE: Duration = Duration::from_secs(1);
/// Bodies from this size on take longer to decode than an async thread should be held up.
const LARGE: usize = 64 * 1024;
/// Warnings that fit into a result.
const MAX_WARNINGS: usize = 50;

/// Runs one job.
pub(super) struct JobRunner {
    pub context: IngestContext,
    pub gate: Gate,
    /// Cancelled when the time for a clean end is over: the job is given back.
    pub abort: CancellationToken,
}

/// What is known of a delivery before its body is decoded.
struct Delivery {
    message: Message,
    headers: Headers,
    tenant: Result<TenantId>,
    /// The stream sequence.
    sequence: u64,
    /// The job's version: its origin's, when that is lower.
    version: u64,
    /// Deliveries that were attempts, this one too: those that ended in parking are none.
    attempt: u64,
    /// Attempts that began and did not end in order, this one too, as far as the registry knows: crashes and internal errors.
    begun: AtomicU64,
    job_id: JobId,
    /// The encoding of the result: the job's, JSON when that is unknown.
    encoding: Encoding,
}

impl Delivery {
    fn of(message: Message, parked: u64) -> Result<Self> {
        let info = message
            .info()
            .map_err(|e| Error::internal("a delivery without numbers").caused_by(e))?;
        let (sequence, attempt) = (
            info.stream_sequence,
            u64::try_from(info.delivered).unwrap_or(1),
        );
        let attempt = attempt.saturating_sub(parked).max(1);
        let headers = Headers::of(message.headers.as_ref());
        let origin = headers.origin_sequence().unwrap_or(sequence);
        Ok(Self {
            tenant: subjects::work_tenant(&message.subject),
            version: origin.min(sequence),
            job_id: JobId::derive(headers.request_id().as_ref(), sequence),
            encoding: headers.encoding().unwrap_or(Encoding::Json),
            sequence,
            attempt,
            begun: AtomicU64::new(1),
            headers,
            message,
        })
    }

    fn attempt(&self) -> u32 {
        u32::try_from(self.attempt).unwrap_or(u32::MAX)
    }
}

impl JobRunner {
    /// Carries out a job that was parked so often before.
    pub(super) async fn run(&self, message: Message, parked: u64) {
        let started = Instant::now();
        let delivery = match Delivery::of(message, parked) {
            Ok(delivery) => delivery,
            Err(error) => return tracing::error!(error = %error.chain(), "an unreadable delivery"),
        };
        let span = tracing::info_span!(
            target: "ragbus",
            "ingest job",
            otel.kind = "consumer",
            messaging.system = "nats",
            messaging.destination.template = "rag.ingest.{tenant}",
            job_id = %delivery.job_id,
            sequence = delivery.sequence,
            attempt = delivery.attempt,
            trace_id = delivery.headers.get("traceparent").and_then(|t| t.get(3..35)).unwrap_or_default(),
        );
        crate::telemetry::set_parent(&span, &delivery.headers.trace());
        self.context.metrics.job_started();
        let outcome = self.delivered(&delivery).instrument(span).await;
        self.context.metrics.job_ended(outcome, started.elapsed());
    }

    /// Returns the outcome's name for metrics.
    async fn delivered(&self, delivery: &Delivery) -> &'static str {
        let worked = AssertUnwindSafe(self.worked(delivery)).catch_unwind();
        let ended = tokio::select! {
            ended = worked => ended,
            () = self.abort.cancelled() => {
                self.give_back(delivery, SHORTEST_DELAY).await;
                return "given_back";
            }
            () = progress(&delivery.message) => return "given_back",
        };
        let finished = match ended {
            Ok(Ok(result)) => self
                .finish(delivery, &result)
                .await
                .map(|()| status_name(result.status)),
            Ok(Err(failure)) => self.fail(delivery, *failure).await,
            Err(_) => {
                let error = Error::internal("the job panicked");
                self.fail(delivery, (Names::default(), error)).await
            }
        };
        match finished {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::warn!(error = %error.chain(), "the end of a job could not be told, it is delivered again");
                self.give_back(delivery, retry_delay(delivery.attempt))
                    .await;
                "given_back"
            }
        }
    }

    async fn worked(
        &self,
        delivery: &Delivery,
    ) -> std::result::Result<IngestResult, Box<(Names, Error)>> {
        let unnamed = |error| Box::new((Names::default(), error));
        let Ok(tenant) = &delivery.tenant else {
            return Err(unnamed(Error::tenant_invalid()));
        };
        self.check_crashes(delivery, tenant)
            .await
            .map_err(unnamed)?;
        let encoding = delivery.headers.encoding().map_err(unnamed)?;
        let max_body = topology::max_body(self.context.connection.max_payload());
        delivery
            .headers
            .check_size(delivery.message.payload.len(), max_body)
            .map_err(unnamed)?;
        let decoded = self.decoded(delivery, encoding).await?;
        let names = Names {
            corpus: decoded.corpus.as_str().to_owned(),
            document_id: decoded
                .operation
                .document_id()
                .map(|d| d.as_str().to_owned())
                .unwrap_or_default(),
        };
        let named = |error| Box::new((names.clone(), error));
        delivery.headers.check_audit().map_err(named)?;
        let job = IngestJob {
            job_id: delivery.job_id.clone(),
            corpus: CorpusRef::new(tenant.clone(), decoded.corpus),
            sequence: delivery.version,
            attempt: delivery.attempt(),
            operation: decoded.operation,
        };
        self.context.processor.process(&job).await.map_err(named)
    }

    /// A large body is decoded off the async threads.
    async fn decoded(
        &self,
        delivery: &Delivery,
        encoding: Encoding,
    ) -> std::result::Result<DecodedIngest, Box<(Names, Error)>> {
        let (body, limits) = (delivery.message.payload.clone(), self.context.limits);
        if body.len() < LARGE {
            return decode_ingest(&body, encoding, limits);
        }
        let decoding = tokio::task::spawn_blocking(move || decode_ingest(&body, encoding, limits));
        match decoding.await {
            Ok(decoded) => decoded,
            Err(e) => {
                let error = Error::internal("decoding panicked").caused_by(e);
                Err(Box::new((Names::default(), error)))
            }
        }
    }

    /// A job that kills workers is dead before it kills another one. The delivery count alone says nothing: it also counts
    /// what waited for a dependency or was given back at a shutdown.
    async fn check_crashes(&self, delivery: &Delivery, tenant: &TenantId) -> Result<()> {
        if delivery.attempt <= 1 {
            return Ok(());
        }
        let registry = &self.context.registry;
        let crashes = registry.job_started(tenant, delivery.sequence).await?;
        let begun = u64::from(crashes) + 2;
        delivery.begun.store(begun, Ordering::Relaxed);
        // The first delivery is not counted: after this many, the sixth has crashed too.
        if u64::from(crashes) >= MAX_ATTEMPTS - 1 {
            return Err(Error::internal("workers crashed over this job"));
        }
        Ok(())
    }

    /// The delivery ends in order: `ended` for good, or given back.
    async fn settle(&self, delivery: &Delivery, ended: bool) {
        let Ok(tenant) = &delivery.tenant else {
            return;
        };
        if delivery.attempt <= 1 {
            return;
        }
        let registry = &self.context.registry;
        let told = match ended {
            true => registry.job_ended(tenant, delivery.sequence).await,
            false => registry.job_given_back(tenant, delivery.sequence).await,
        };
        if let Err(error) = told {
            tracing::debug!(error = %error.chain(), "a start could not be taken back");
        }
    }

    /// Steps 6 and 7: the result is in its stream before the job is acknowledged.
    async fn finish(&self, delivery: &Delivery, result: &IngestResult) -> Result<()> {
        self.publish(delivery, result).await?;
        self.context
            .processor
            .observer()
            .reached(IngestStep::Published)
            .await;
        self.settle(delivery, true).await;
        delivery
            .message
            .double_ack()
            .await
            .map_err(|e| Error::dependency("an acknowledgement got lost", e))?;
        tracing::info!(
            status = status_name(result.status),
            chunks = result.chunks,
            "job done"
        );
        Ok(())
    }

    async fn fail(
        &self,
        delivery: &Delivery,
        (names, error): (Names, Error),
    ) -> Result<&'static str> {
        let kind = error.kind();
        let attempts = match kind {
            // What waited for a dependency or was parked by another worker must not make a first bug the last one.
            ErrorKind::Internal => delivery.begun.load(Ordering::Relaxed),
            _ => delivery.attempt,
        };
        match disposition(kind, attempts) {
            Disposition::Retry(wait) => {
                tracing::warn!(kind = kind.name(), error = %error.chain(), wait_ms = wait.as_millis() as u64, "job waits for another try");
                if kind == ErrorKind::DependencyFailed {
                    self.pause();
                }
                match kind {
                    // Its start stays counted, as a crash's does.
                    ErrorKind::Internal => delayed(delivery, wait).await,
                    _ => self.give_back(delivery, wait).await,
                }
                Ok("retried")
            }
            Disposition::DeadLetter => {
                tracing::warn!(kind = kind.name(), error = %error.chain(), "job failed for good");
                self.bury(delivery, &names, &error).await?;
                Ok("failed")
            }
            Disposition::Refuse => {
                self.context.metrics.limited("documents");
                let result = failed_result(delivery, &names, &error);
                self.finish(delivery, &result).await?;
                Ok("failed")
            }
        }
    }

    async fn bury(&self, delivery: &Delivery, names: &Names, error: &Error) -> Result<()> {
        let letter = DeadLetter {
            stream: topology::INGEST,
            tenant: delivery.tenant.as_ref().ok(),
            headers: &delivery.headers,
            body: &delivery.message.payload,
            error,
            attempts: delivery.attempt,
            sequence: delivery.sequence,
            origin: delivery.version,
        };
        dead_letter::publish(&self.context.connection, &letter).await?;
        self.context.metrics.dead_letter(error.kind().name());
        let result = failed_result(delivery, names, error);
        self.publish(delivery, &result).await?;
        self.settle(delivery, true).await;
        delivery
            .message
            .double_ack_with(AckKind::Term)
            .await
            .map_err(|e| Error::dependency("a termination got lost", e))
    }

    /// Publishes a result and waits until the stream has it. Without a valid tenant there is nowhere to publish.
    async fn publish(&self, delivery: &Delivery, result: &IngestResult) -> Result<()> {
        let Ok(tenant) = &delivery.tenant else {
            return Ok(());
        };
        // What can't be decoded is answered in JSON, which any caller can read.
        let malformed = result
            .error
            .as_ref()
            .is_some_and(|e| e.kind == ErrorKind::Malformed.name());
        let encoding = if malformed {
            Encoding::Json
        } else {
            delivery.encoding
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, encoding.content_type());
        headers.insert(WORKER, self.context.worker.as_str());
        headers.insert(REQUEST_ID, delivery.job_id.as_str());
        insert_trace(&mut headers);
        let mut result = result.clone();
        result.warnings.truncate(MAX_WARNINGS);
        let body = Bytes::from(encode(&ingest_result(&result), encoding));
        let subject = subjects::result(tenant, &delivery.job_id);
        let failed = |e| Error::dependency("a result could not be stored", e);
        let publish = self
            .context
            .connection
            .jetstream
            .publish_with_headers(subject, headers, body);
        publish.await.map_err(failed)?.await.map_err(failed)?;
        Ok(())
    }

    async fn give_back(&self, delivery: &Delivery, wait: Duration) {
        let wait = not_before(wait, self.context.store.write_limit());
        self.settle(delivery, false).await;
        delayed(delivery, wait).await;
    }

    /// Looks whether a dependency is down for everybody, and stops pulling until it answers again. What fails for one
    /// corpus only (a damaged collection) must not stop the others.
    fn pause(&self) {
        let (context, gate, abort) = (self.context.clone(), self.gate.clone(), self.abort.clone());
        tokio::spawn(async move {
            if healthy(&context).await || !gate.close() {
                return;
            }
            tracing::warn!("pulling pauses: a dependency is down");
            context.metrics.ingest_paused(true);
            while !healthy(&context).await {
                tokio::select! {
                    () = tokio::time::sleep(PROBE) => {}
                    () = abort.cancelled() => break,
                }
            }
            context.metrics.ingest_paused(false);
            gate.open();
            tracing::info!("pulling goes on");
        });
    }
}

/// The server delivers the job again after this time.
async fn delayed(delivery: &Delivery, wait: Duration) {
    // When this gets lost, the job comes back after the server's patience.
    if let Err(error) = delivery.message.ack_with(AckKind::Nak(Some(wait))).await {
        tracing::debug!(error = %error, "a job could not be given back");
    }
}

async fn healthy(context: &IngestContext) -> bool {
    let (store, registry) = tokio::join!(context.store.health(), context.registry.health());
    store.is_ok() && registry.is_ok()
}

/// Sends signs of life until it is dropped.
async fn progress(message: &Message) {
    loop {
        tokio::time::sleep(PROGRESS).await;
        if let Err(error) = message.ack_with(AckKind::Progress).await {
            tracing::debug!(error = %error, "a sign of life got lost");
        }
    }
}

fn failed_result(delivery: &Delivery, names: &Names, error: &Error) -> IngestResult {
    IngestResult {
        job_id: delivery.job_id.as_str().to_owned(),
        corpus: names.corpus.clone(),
        document_id: names.document_id.clone(),
        status: IngestStatus::Failed,
        sequence: delivery.version,
        chunks: 0,
        chunks_deleted: 0,
        truncated_tokens: 0,
        warnings: Vec::new(),
        error: Some(JobError::from(error)),
        timings: std::collections::BTreeMap::new(),
        attempt: delivery.attempt(),
    }
}

const fn status_name(status: IngestStatus) -> &'static str {
    match status {
        IngestStatus::Indexed => "indexed",
        IngestStatus::MetadataUpdated => "metadata_updated",
        IngestStatus::Unchanged => "unchanged",
        IngestStatus::Superseded => "superseded",
        IngestStatus::Deleted => "deleted",
        IngestStatus::Failed => "failed",
    }
}
