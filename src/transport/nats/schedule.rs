//! The clock of retention: one stored message that the server repeats as a tick, or, where the server is too old for that,
//! ticks that workers publish and the server keeps one of.
//!
//! A tick only orders a run under its key; carrying it out is the registry's business. Must not know what a run does.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use futures::StreamExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::connect::Connection;
use super::headers::Headers;
use super::setup::{Action, Change, consumer, failed, stream};
use super::topology::ACK_WAIT;
use crate::error::{Error, Result};
use crate::model::{RunOrder, Timestamp};
use crate::retention::Schedule;
use crate::spi::RetentionRegistry;

pub(super) const STREAM: &str = "RAG_SCHED";
const SCHEDULE: &str = "rag.schedule.retention";
const TICK: &str = "rag.retention.tick";
const CONSUMER: &str = "retention";
/// The first server that repeats messages by cron or interval.
const SINCE: (u32, u32) = (2, 14);
const TICK_LIFE: &str = "1h";
const RETRY: Duration = Duration::from_secs(5);
const PULL_LIMIT: Duration = Duration::from_secs(30);

fn config(repeats: bool, replicas: usize) -> Config {
    Config {
        name: STREAM.to_owned(),
        description: Some("the retention schedule and its ticks".to_owned()),
        subjects: vec![SCHEDULE.to_owned(), TICK.to_owned()],
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::Old,
        // Ticks that nobody took coalesce.
        max_messages_per_subject: 1,
        max_message_size: 8 * 1024,
        // Also tells apart what workers publish for the same planned time.
        duplicate_window: Duration::from_secs(120),
        storage: StorageType::File,
        num_replicas: replicas,
        allow_message_schedules: repeats,
        allow_message_ttl: repeats,
        allow_rollup: repeats,
        ..Config::default()
    }
}

fn tick_consumer() -> pull::Config {
    pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        filter_subject: TICK.to_owned(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_deliver: -1,
        max_ack_pending: 1,
        ..pull::Config::default()
    }
}

/// Whether this server repeats messages by itself.
pub fn server_repeats(connection: &Connection) -> bool {
    let version = connection.server_version();
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= SINCE
}

/// Creates or updates the stream, its consumer and the schedule.
///
/// # Errors
/// `DependencyFailed` with what the server said.
pub async fn setup_schedule(
    connection: &Connection,
    replicas: usize,
    schedule: &str,
    by_server: bool,
) -> Result<Vec<Change>> {
    let repeats = by_server && server_repeats(connection);
    let mut changes = vec![stream(connection, config(repeats, replicas)).await?];
    let found = connection.jetstream.get_stream(STREAM).await;
    let found = found.map_err(|e| failed(STREAM, e))?;
    changes.push(consumer(&found, tick_consumer()).await?);
    if repeats {
        changes.push(stored_schedule(connection, &found, schedule).await?);
    }
    Ok(changes)
}

/// The message that the server repeats. Publishing it again replaces it.
async fn stored_schedule(
    connection: &Connection,
    stream: &Stream,
    schedule: &str,
) -> Result<Change> {
    let what = "schedule of retention".to_owned();
    let stored = stream.get_last_raw_message_by_subject(SCHEDULE).await.ok();
    let before = stored.and_then(|message| {
        let value = message.headers.get(header::NATS_SCHEDULE)?;
        Some(value.as_str().to_owned())
    });
    if before.as_deref() == Some(schedule) {
        return Ok(Change {
            what,
            action: Action::Unchanged,
        });
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::NATS_SCHEDULE, schedule);
    headers.insert(header::NATS_SCHEDULE_TARGET, TICK);
    headers.insert(header::NATS_SCHEDULE_TTL, TICK_LIFE);
    headers.insert(header::NATS_SCHEDULE_ROLLUP, "sub");
    let sent = connection
        .jetstream
        .publish_with_headers(SCHEDULE, headers, "".into())
        .await;
    let stored = sent.map_err(|e| failed(&what, e))?.await;
    stored.map_err(|e| failed(&what, e))?;
    let action = match before {
        None => Action::Created,
        Some(before) => Action::Updated(vec![("schedule", schedule.to_owned(), before)]),
    };
    Ok(Change { what, action })
}

/// Takes ticks.
#[derive(Debug, Clone)]
pub struct Ticks {
    /// The connection.
    pub connection: Connection,
    /// Where runs are ordered.
    pub registry: Arc<dyn RetentionRegistry>,
    /// Told when a run was ordered.
    pub ordered: Arc<Notify>,
}

impl Ticks {
    /// Orders a run for each tick until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut told = String::new();
        while !stop.is_cancelled() {
            let ended = tokio::select! {
                () = stop.cancelled() => return,
                ended = self.pull() => ended,
            };
            if let Err(error) = ended
                && told != error.message()
            {
                tracing::warn!(error = %error.chain(), "retention: no ticks are taken");
                error.message().clone_into(&mut told);
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    async fn pull(&self) -> Result<()> {
        let missing = |e| {
            let message = format!("stream {STREAM} or its consumer is missing: run `ragbus setup`");
            Error::dependency(message, e)
        };
        let jetstream = &self.connection.jetstream;
        let consumer: Consumer<pull::Config> = jetstream
            .get_consumer_from_stream(CONSUMER, STREAM)
            .await
            .map_err(missing)?;
        loop {
            let batch = consumer
                .fetch()
                .max_messages(1)
                .expires(PULL_LIMIT)
                .messages()
                .await
                .map_err(|e| Error::dependency("ticks can't be pulled", e))?;
            let mut batch = std::pin::pin!(batch);
            while let Some(tick) = batch.next().await {
                let tick = tick.map_err(|e| Error::dependency("ticks can't be pulled", e))?;
                self.take(&tick).await?;
            }
        }
    }

    /// The run is on record before the tick is acknowledged: whoever dies in between, it is ordered once.
    async fn take(&self, tick: &Message) -> Result<()> {
        let key = key_of(tick);
        self.registry.order_run(&key, &RunOrder::default()).await?;
        tracing::info!(run = key, "retention: a tick ordered a run");
        self.ordered.notify_one();
        let acknowledged = tick.double_ack().await;
        acknowledged.map_err(|e| Error::dependency("a tick can't be acknowledged", e))
    }

    /// Publishes ticks itself, for a server that can't: all workers do, and the server keeps one of each planned time.
    pub async fn publish(connection: Connection, schedule: Schedule, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let now = Timestamp::now();
            let Some(planned) = schedule.next_after(now) else {
                return tracing::warn!("retention.schedule never comes");
            };
            let wait = planned.as_micros().saturating_sub(now.as_micros());
            let wait = Duration::from_micros(u64::try_from(wait).unwrap_or(0));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let mut headers = HeaderMap::new();
            let id = format!("retention-{}", planned.as_micros());
            headers.insert(header::NATS_MESSAGE_ID, id.as_str());
            let sent = connection
                .jetstream
                .publish_with_headers(TICK, headers, "".into())
                .await;
            let stored = async { sent?.await };
            if let Err(error) = stored.await {
                tracing::warn!(error = %error, "retention: a tick can't be published");
            }
        }
    }
}

/// The same for every delivery of one tick: its scheduler and planned time; the publisher's id; its place in the stream.
fn key_of(tick: &Message) -> String {
    let headers = Headers::of(tick.headers.as_ref());
    let by_server = (
        headers.get("Nats-Scheduler"),
        headers.get("Nats-Schedule-Next"),
    );
    if let (Some(scheduler), Some(next)) = by_server {
        return format!("{scheduler}@{next}");
    }
    if let Some(id) = headers.get("Nats-Msg-Id") {
        return format!("{TICK}@{id}");
    }
    let sequence = tick.info().map_or(0, |info| info.stream_sequence);
    format!("{TICK}#{sequence}")
}
