//! One batch of tracking events: read, store in one go, acknowledge after the commit.
//!
//! The tenant is the subject's, and the time is the stream's: neither a worker's clock nor what an event claims changes either. What
//! can't be read is a dead letter at once. A batch that fails for a reason of its own is split until the odd event is alone; while
//! SQL is down the batch is kept, and nothing more is pulled.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::dead_letter::{self, DeadLetter};
use super::disposition::{Disposition, SHORTEST_DELAY, disposition};
use super::headers::Headers;
use super::subjects;
use super::tracking_consumer::TrackingContext;
use super::tracking_topology::TRACKING;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{RetrievalRecord, Timestamp};
use crate::wire::record_of;

/// A sign of life is sent this often; three fit into the server's patience.
const PROGRESS: Duration = Duration::from_secs(10);
const PROBE: Duration = Duration::from_secs(1);
/// A batch that fails so often although SQL answers is itself at fault.
const TRIES: u32 = 3;
const AGAIN: Duration = Duration::from_millis(200);

/// Stores batches.
#[derive(Debug)]
pub(super) struct BatchWriter {
    context: TrackingContext,
    stop: CancellationToken,
}

/// Events that were read, each with its message at the same place.
#[derive(Debug, Default)]
struct Part {
    messages: Vec<Message>,
    records: Vec<RetrievalRecord>,
}

impl Part {
    fn split(&mut self) -> Self {
        let at = self.records.len() / 2;
        Self {
            messages: self.messages.split_off(at),
            records: self.records.split_off(at),
        }
    }
}

/// Why a part is not stored.
enum Trouble {
    /// The worker goes away.
    Stopped,
    Failed(Error),
}

impl BatchWriter {
    pub(super) fn new(context: TrackingContext, stop: CancellationToken) -> Self {
        Self { context, stop }
    }

    /// Deals with every message of a batch.
    pub(super) async fn write(&self, batch: Vec<Message>) {
        let mut part = Part::default();
        for message in batch {
            match read(&message) {
                Ok(record) => {
                    part.messages.push(message);
                    part.records.push(record);
                }
                Err(error) => self.dispose(&message, &error).await,
            }
        }
        let mut parts = vec![part];
        while let Some(mut part) = parts.pop() {
            if part.records.is_empty() {
                continue;
            }
            match self.stored(&part).await {
                Ok(new) => self.finish(&part, new).await,
                Err(Trouble::Stopped) => {
                    parts.push(part);
                    break;
                }
                Err(Trouble::Failed(_)) if part.records.len() > 1 => {
                    let rest = part.split();
                    parts.extend([rest, part]);
                }
                Err(Trouble::Failed(error)) => self.dispose(&part.messages[0], &error).await,
            }
        }
        for message in parts.iter().flat_map(|part| &part.messages) {
            settle(message, AckKind::Nak(None)).await;
        }
    }

    /// Stores a part, waiting while SQL is down.
    async fn stored(&self, part: &Part) -> std::result::Result<u64, Trouble> {
        let mut tries = 0;
        loop {
            let error = match self.alive(part, self.recorded(&part.records)).await {
                Ok(new) => return Ok(new),
                Err(error) => error,
            };
            if error.kind() != ErrorKind::DependencyFailed {
                return Err(Trouble::Failed(error));
            }
            if self.context.tracker.now().await.is_err() {
                self.wait_for_sql(part, &error).await?;
                tries = 0;
                continue;
            }
            tries += 1;
            if tries >= TRIES {
                return Err(Trouble::Failed(error));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn recorded(&self, records: &[RetrievalRecord]) -> Result<u64> {
        let recorded = AssertUnwindSafe(self.context.tracker.record(records));
        match recorded.catch_unwind().await {
            Ok(recorded) => recorded,
            Err(_) => Err(Error::internal("storing retrievals panicked")),
        }
    }

    async fn wait_for_sql(&self, part: &Part, error: &Error) -> std::result::Result<(), Trouble> {
        tracing::warn!(error = %error.chain(), "tracking waits: SQL is down");
        let metrics = self.context.metrics.tracking();
        metrics.paused(true);
        let back = async {
            while self.context.tracker.now().await.is_err() {
                tokio::time::sleep(PROBE).await;
            }
        };
        let back = tokio::select! {
            () = self.stop.cancelled() => Err(Trouble::Stopped),
            () = self.alive(part, back) => Ok(()),
        };
        metrics.paused(false);
        if back.is_ok() {
            tracing::info!("tracking goes on");
        }
        back
    }

    /// Sends signs of life while `work` lasts.
    async fn alive<T>(&self, part: &Part, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(PROGRESS) => {}
            }
            for message in &part.messages {
                settle(message, AckKind::Progress).await;
            }
        }
    }

    /// An acknowledgement that gets lost only means that the event comes again, and is known.
    async fn finish(&self, part: &Part, new: u64) {
        for message in &part.messages {
            settle(message, AckKind::Ack).await;
        }
        let metrics = self.context.metrics.tracking();
        metrics.recorded(new, (part.records.len() as u64).saturating_sub(new));
        if let Some(oldest) = part.records.iter().map(|record| record.at).min() {
            let micros = Timestamp::now().as_micros() - oldest.as_micros();
            metrics.lag(Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
        }
    }

    /// One event that can't be stored.
    async fn dispose(&self, message: &Message, error: &Error) {
        let attempts = attempts(message);
        match disposition(error.kind(), attempts) {
            Disposition::Retry(wait) => {
                tracing::warn!(kind = error.kind().name(), error = %error.chain(), "a tracking event waits for another try");
                settle(message, AckKind::Nak(Some(wait))).await;
            }
            Disposition::DeadLetter | Disposition::Refuse => {
                tracing::warn!(kind = error.kind().name(), error = %error.chain(), "a tracking event can't be stored");
                self.bury(message, error, attempts).await;
            }
        }
    }

    async fn bury(&self, message: &Message, error: &Error, attempts: u64) {
        let tenant = subjects::request_tenant(&message.subject).ok();
        let headers = Headers::of(message.headers.as_ref());
        let sequence = message.info().map_or(0, |info| info.stream_sequence);
        let letter = DeadLetter {
            stream: TRACKING,
            tenant: tenant.as_ref(),
            headers: &headers,
            body: &message.payload,
            error,
            attempts,
            sequence,
            origin: sequence,
        };
        match dead_letter::publish(&self.context.connection, &letter).await {
            Ok(()) => {
                self.context.metrics.dead_letter(error.kind().name());
                settle(message, AckKind::Term).await;
            }
            Err(error) => {
                tracing::warn!(error = %error.chain(), "a tracking event could not be moved to the dead letters");
                settle(message, AckKind::Nak(Some(SHORTEST_DELAY))).await;
            }
        }
    }
}

/// The record that an event carries.
fn read(message: &Message) -> Result<RetrievalRecord> {
    let tenant = subjects::request_tenant(&message.subject)?;
    let info = message
        .info()
        .map_err(|e| Error::internal("a delivery without numbers").caused_by(e))?;
    let micros = info.published.unix_timestamp_nanos() / 1_000;
    let at = Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX));
    record_of(&tenant, at, &message.payload)
}

fn attempts(message: &Message) -> u64 {
    let delivered = message.info().map_or(1, |info| info.delivered);
    u64::try_from(delivered).unwrap_or(1)
}

async fn settle(message: &Message, kind: AckKind) {
    if let Err(error) = message.ack_with(kind).await {
        tracing::debug!(error = %error, "an acknowledgement got lost");
    }
}
