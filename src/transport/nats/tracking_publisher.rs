//! Publishes tracking events: through a bounded buffer that no reply waits for, or, under the guarantee, while a reply waits.
//!
//! Must not know what a record holds. The buffer is the only place where events are dropped, and each is counted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::connection::State;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use prost::Message;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::connect::Connection;
use super::headers::{CONTENT_TYPE, insert_trace};
use super::tracking_topology::{max_event, subject};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{RetrievalRecord, StageName, TrackedEnd};
use crate::telemetry::Metrics;
use crate::tracking::{QueryHasher, shortened};
use crate::wire::{Encoding, event_size, retrieval_recorded};

/// Events on their way to the stream at once.
const WINDOW: usize = 256;
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(5);
/// An event's headers fit into this.
const HEADROOM: usize = 4 * 1024;
/// A reply goes first: an event that is published at once stands before it on the way to the server.
const HEAD_START: Duration = Duration::from_millis(5);
/// Refusals of the stream, and drops, are told at most this often; all are counted.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// What happens when a retrieval can't be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackingGuarantee {
    /// Its reply neither waits nor fails.
    BestEffort,
    /// Its reply waits for the stream, and fails without it.
    Required,
}

/// How events are published.
#[derive(Debug, Clone)]
pub struct TrackingConfig {
    /// What happens when that fails.
    pub guarantee: TrackingGuarantee,
    /// Events that may wait for the stream.
    pub buffer: usize,
    /// Hashes questions, when that is wanted.
    pub hasher: Option<QueryHasher>,
}

/// Takes records of retrievals.
#[derive(Debug, Clone)]
pub struct TrackingPublisher {
    guarantee: TrackingGuarantee,
    sender: mpsc::Sender<RetrievalRecord>,
    writer: Arc<EventWriter>,
}

/// Carries what waits in the buffer to the stream.
#[derive(Debug)]
pub struct TrackingPump {
    receiver: mpsc::Receiver<RetrievalRecord>,
    writer: Arc<EventWriter>,
}

impl TrackingPublisher {
    /// A publisher, and the pump that has to run beside it.
    pub fn new(
        connection: Connection,
        config: TrackingConfig,
        metrics: Metrics,
    ) -> (Self, TrackingPump) {
        let (sender, receiver) = mpsc::channel(config.buffer.max(1));
        let writer = Arc::new(EventWriter {
            connection,
            hasher: config.hasher,
            metrics,
            dropping: Told::default(),
            refusing: Told::default(),
        });
        let publisher = Self {
            guarantee: config.guarantee,
            sender,
            writer: Arc::clone(&writer),
        };
        (publisher, TrackingPump { receiver, writer })
    }

    /// Puts a record into the buffer; counts it as dropped when there is no room.
    pub fn offer(&self, record: RetrievalRecord) {
        if self.sender.try_send(record).is_err() {
            self.writer.metrics.tracking().dropped();
            if self.writer.dropping.again() {
                tracing::warn!("tracking events are dropped: the buffer is full");
            }
        }
    }

    /// Records an answer before it is given: by the guarantee that is in force.
    ///
    /// # Errors
    /// `RequiredStageDegraded` when the stream has not acknowledged a required event by the deadline. The record then tells of
    /// that failure, since the caller gets no answer.
    pub async fn keep(&self, record: RetrievalRecord, deadline: Instant) -> Result<()> {
        if self.guarantee == TrackingGuarantee::BestEffort {
            self.offer(record);
            return Ok(());
        }
        let stored = tokio::time::timeout_at(deadline.into(), self.writer.store(&record));
        let error = match stored.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(elapsed) => {
                self.writer.metrics.tracking().refused();
                Error::dependency("the tracking stream doesn't answer in time", elapsed)
            }
        };
        let kind = ErrorKind::RequiredStageDegraded;
        self.offer(RetrievalRecord {
            end: TrackedEnd::Failed(kind),
            chunks: Vec::new(),
            ..record
        });
        Err(Error::new(kind, "the retrieval could not be recorded")
            .at_stage(StageName::Tracking.name())
            .retry_after(Duration::from_secs(1))
            .caused_by(error))
    }
}

impl TrackingPump {
    /// Publishes until `stop`, which comes after the last request was answered; then empties the buffer within `grace`.
    pub async fn run(mut self, stop: CancellationToken, grace: Duration) {
        let mut sending = FuturesUnordered::new();
        loop {
            self.writer
                .metrics
                .tracking()
                .buffered(self.receiver.len() + sending.len());
            tokio::select! {
                Some(record) = self.receiver.recv(), if sending.len() < WINDOW => {
                    sending.push(until_stored(Arc::clone(&self.writer), record));
                }
                Some(()) = sending.next() => {}
                () = stop.cancelled() => break,
            }
        }
        self.receiver.close();
        let receiver = &mut self.receiver;
        let emptied = async {
            loop {
                tokio::select! {
                    Some(record) = receiver.recv(), if sending.len() < WINDOW => {
                        sending.push(until_stored(Arc::clone(&self.writer), record));
                    }
                    Some(()) = sending.next() => {}
                    else => break,
                }
            }
        };
        let emptied = tokio::time::timeout(grace, emptied).await.is_ok();
        let left = sending.len() + receiver.len();
        for _ in 0..left {
            self.writer.metrics.tracking().dropped();
        }
        if !emptied {
            tracing::warn!(
                left,
                "tracking events could not be published before the end"
            );
        }
    }
}

/// Tries until the stream has it: the same event twice counts once.
async fn until_stored(writer: Arc<EventWriter>, record: RetrievalRecord) {
    let mut wait = FIRST_RETRY;
    tokio::time::sleep(HEAD_START).await;
    loop {
        // What is published without a server would only be published twice.
        while writer.connection.client.connection_state() != State::Connected {
            tokio::time::sleep(FIRST_RETRY).await;
        }
        match writer.store(&record).await {
            Ok(()) => return,
            Err(error) if writer.refusing.again() => {
                tracing::warn!(error = %error.chain(), "the tracking stream takes no events");
            }
            Err(_) => {}
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LAST_RETRY);
    }
}

#[derive(Debug)]
struct EventWriter {
    connection: Connection,
    hasher: Option<QueryHasher>,
    metrics: Metrics,
    dropping: Told,
    refusing: Told,
}

impl EventWriter {
    /// Publishes an event and waits until the stream has it.
    async fn store(&self, record: &RetrievalRecord) -> Result<()> {
        let limit = max_event(self.connection.max_payload()).saturating_sub(HEADROOM);
        let record = match &self.hasher {
            Some(hasher) => hasher.hashed(record.clone()),
            None => record.clone(),
        };
        let record = shortened(record, limit, event_size);
        let body = retrieval_recorded(&record).encode_to_vec();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, Encoding::Protobuf.content_type());
        // Only workers may publish here: no caller can take an id away.
        headers.insert("Nats-Msg-Id", record.id.to_string().as_str());
        insert_trace(&mut headers);
        let failed = |e| Error::dependency("a tracking event could not be stored", e);
        let stored = async {
            let jetstream = &self.connection.jetstream;
            let publish =
                jetstream.publish_with_headers(subject(record.tenant()), headers, body.into());
            publish.await.map_err(failed)?.await.map_err(failed)
        };
        match stored.await {
            Ok(_) => {
                self.metrics.tracking().published();
                Ok(())
            }
            Err(error) => {
                self.metrics.tracking().refused();
                Err(error)
            }
        }
    }
}

/// Whether something is worth telling again.
#[derive(Debug, Default)]
struct Told(Mutex<Option<Instant>>);

impl Told {
    fn again(&self) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
        if due {
            *told = Some(Instant::now());
        }
        due
    }
}
