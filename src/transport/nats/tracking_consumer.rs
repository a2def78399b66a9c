//! The tracker role: pulls events in batches and hands them to be stored. Several workers may run it.
//!
//! Must not know what an event says; `tracking_batch.rs` deals with one batch.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{Consumer, pull};
use futures::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::connect::Connection;
use super::tracking_batch::BatchWriter;
use super::tracking_topology::{TRACKER, TRACKING};
use super::verify_tracking::verify_tracking;
use crate::error::{Error, Result};
use crate::spi::RetrievalTracker;
use crate::telemetry::{Health, Metrics};

const CONDITION: &str = "tracking";
const RETRY: Duration = Duration::from_secs(1);
/// How long an idle tracker waits for an event before it asks again.
const PATIENCE: Duration = Duration::from_secs(1);
/// After the first event of a quiet time others may follow: so long is waited for them.
const GATHER: Duration = Duration::from_millis(20);
const PULL_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of one batch: events can be as large as a message.
const BATCH_BYTES: usize = 32 * 1024 * 1024;
/// While one batch is stored the next is pulled.
const PULLERS: usize = 2;
const BACKLOG_EVERY: Duration = Duration::from_secs(5);

/// What the tracker role is made of.
#[derive(Debug, Clone)]
pub struct TrackingContext {
    /// The connection.
    pub connection: Connection,
    /// Where retrievals are stored.
    pub tracker: Arc<dyn RetrievalTracker>,
    /// Events of one batch at most.
    pub batch: usize,
    /// Instruments.
    pub metrics: Metrics,
    /// Readiness.
    pub health: Health,
}

/// The tracker role.
#[derive(Debug)]
pub struct TrackingConsumer {
    context: TrackingContext,
}

impl TrackingConsumer {
    /// A consumer that is not running yet.
    pub fn new(context: TrackingContext) -> Self {
        Self { context }
    }

    /// Pulls until `stop`; what is not stored by then is given back.
    pub async fn run(self, stop: CancellationToken) {
        let mut first = true;
        while !stop.is_cancelled() {
            let Some(consumer) = self.verified(first, &stop).await else {
                return;
            };
            first = false;
            let backlog = self.backlog();
            // What ends one puller ends the other, so that both begin again.
            let round = stop.child_token();
            let pullers = (0..PULLERS).map(|_| self.pull(&consumer, &round, &stop));
            let pulled = tokio::select! {
                pulled = futures::future::join_all(pullers) => pulled,
                () = backlog => Vec::new(),
            };
            for error in pulled.into_iter().filter_map(Result::err) {
                tracing::warn!(error = %error.chain(), "pulling events stopped, looking again");
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    /// Waits until stream and consumer are as they should be. Only before the first time is the worker not ready for it: later on
    /// replies go on, whatever becomes of the stream.
    async fn verified(
        &self,
        first: bool,
        stop: &CancellationToken,
    ) -> Option<Consumer<pull::Config>> {
        let mut told = Vec::new();
        loop {
            let looked = tokio::select! {
                () = stop.cancelled() => return None,
                looked = self.consumer() => looked,
            };
            let problems = match looked {
                Ok(consumer) => {
                    self.context.health.set(CONDITION, None);
                    return Some(consumer);
                }
                Err(problems) => problems,
            };
            if first {
                let problems = Some(problems.join("; "));
                self.context.health.set(CONDITION, problems);
            }
            if problems != told {
                tracing::error!(problems = ?problems, "no tracking events are pulled");
                told = problems;
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    async fn consumer(&self) -> std::result::Result<Consumer<pull::Config>, Vec<String>> {
        let problems = verify_tracking(&self.context.connection).await;
        if !problems.is_empty() {
            return Err(problems);
        }
        let jetstream = &self.context.connection.jetstream;
        let stream = jetstream.get_stream_no_info(TRACKING).await;
        let stream = stream.map_err(|e| vec![e.to_string()])?;
        let consumer = stream.get_consumer(TRACKER).await;
        consumer.map_err(|e| vec![e.to_string()])
    }

    /// Keeps the figure of what waits up to date. Never ends.
    async fn backlog(&self) {
        loop {
            let jetstream = &self.context.connection.jetstream;
            if let Ok(stream) = jetstream.get_stream_no_info(TRACKING).await
                && let Ok(info) = stream.consumer_info(TRACKER).await
            {
                let waiting = info.num_pending + info.num_ack_pending as u64;
                self.context.metrics.tracking().backlog(waiting);
            }
            tokio::time::sleep(BACKLOG_EVERY).await;
        }
    }

    async fn pull(
        &self,
        consumer: &Consumer<pull::Config>,
        round: &CancellationToken,
        stop: &CancellationToken,
    ) -> Result<()> {
        let writer = BatchWriter::new(self.context.clone(), stop.clone());
        // Dropped when this ends, for whatever reason.
        let _ended = round.clone().drop_guard();
        while !round.is_cancelled() {
            let batch = self.batch(consumer).await?;
            if !batch.is_empty() {
                writer.write(batch).await;
            }
        }
        Ok(())
    }

    /// What is there now; else what comes within a second.
    async fn batch(&self, consumer: &Consumer<pull::Config>) -> Result<Vec<Message>> {
        let mut batch = self.fetched(consumer, self.context.batch).await?;
        if !batch.is_empty() {
            return Ok(batch);
        }
        let waiting = consumer.batch().max_messages(1).expires(PATIENCE);
        let waiting = waiting.messages().await.map_err(failed)?;
        batch = gathered(waiting).await?;
        if !batch.is_empty() {
            tokio::time::sleep(GATHER).await;
            let more = self.fetched(consumer, self.context.batch.saturating_sub(1));
            // The first one must not get lost for the others' sake.
            batch.extend(more.await.unwrap_or_default());
        }
        Ok(batch)
    }

    async fn fetched(
        &self,
        consumer: &Consumer<pull::Config>,
        most: usize,
    ) -> Result<Vec<Message>> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let fetch = consumer.fetch().max_messages(most).max_bytes(BATCH_BYTES);
        gathered(fetch.messages().await.map_err(failed)?).await
    }
}

/// All messages of a pull; an error after some of them ends it.
async fn gathered<E>(
    pulled: impl Stream<Item = std::result::Result<Message, E>>,
) -> Result<Vec<Message>>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut pulled = std::pin::pin!(pulled);
    let mut batch = Vec::new();
    loop {
        match tokio::time::timeout(PULL_LIMIT, pulled.next()).await {
            Ok(Some(Ok(message))) => batch.push(message),
            Ok(None) => return Ok(batch),
            Ok(Some(Err(_))) | Err(_) if !batch.is_empty() => return Ok(batch),
            Ok(Some(Err(error))) => return Err(failed(error)),
            Err(elapsed) => return Err(failed(elapsed)),
        }
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::dependency("a pull of tracking events failed", error)
}
