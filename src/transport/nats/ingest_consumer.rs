//! Pulls ingest jobs: first a permit, then one message from the next lane, which runs or steps aside for another tenant.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{Consumer, pull};
use futures::StreamExt;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connect::Connection;
use super::gate::Gate;
use super::headers::Headers;
use super::ingest_job::JobRunner;
use super::lanes::Lanes;
use super::parking::Parking;
use super::topology::{HINTS, INGEST, LANES, lane_consumer};
use super::turns::{Turn, Turns};
use super::{subjects, verify};
use crate::error::{Error, Result};
use crate::ingest::IngestProcessor;
use crate::spi::{DocumentRegistry, VectorStore};
use crate::telemetry::{Health, Metrics};
use crate::wire::IngestLimits;

const CONDITION: &str = "ingest";
const RETRY: Duration = Duration::from_secs(1);
const PULL_LIMIT: Duration = Duration::from_secs(10);
/// Jobs of a tenant's turn, as a multiple of the jobs in work at once.
const TURN: usize = 2;

/// What the ingest role is made of.
#[derive(Debug, Clone)]
pub struct IngestContext {
    /// The connection.
    pub connection: Connection,
    /// Carries out jobs.
    pub processor: Arc<IngestProcessor>,
    /// Asked whether SQL is back, and for the highest sequence.
    pub registry: Arc<dyn DocumentRegistry>,
    /// Asked whether the store is back.
    pub store: Arc<dyn VectorStore>,
    /// Limits of bodies.
    pub limits: IngestLimits,
    /// Jobs at once.
    pub concurrency: usize,
    /// This worker's name in results.
    pub worker: String,
    /// Instruments.
    pub metrics: Metrics,
    /// Readiness.
    pub health: Health,
}

/// The ingest role.
#[derive(Debug)]
pub struct IngestConsumer {
    context: IngestContext,
    gate: Gate,
    lanes: Arc<Lanes>,
    turns: Arc<Mutex<Turns>>,
    permits: Arc<Semaphore>,
    jobs: TaskTracker,
    abort: CancellationToken,
}

impl IngestConsumer {
    /// A consumer that is not running yet.
    pub fn new(context: IngestContext) -> Self {
        Self {
            gate: Gate::new(),
            lanes: Arc::new(Lanes::new(LANES)),
            turns: Arc::new(Mutex::new(Turns::new(
                LANES,
                TURN * context.concurrency,
                Instant::now(),
            ))),
            permits: Arc::new(Semaphore::new(context.concurrency)),
            jobs: TaskTracker::new(),
            abort: CancellationToken::new(),
            context,
        }
    }

    /// Pulls until `stop`; then lets jobs in work finish for `grace` and gives the rest back.
    pub async fn run(self, stop: CancellationToken, grace: Duration) {
        let mut parking = Parking::new(LANES);
        while !stop.is_cancelled() {
            let Some(consumers) = self.verified(&stop).await else {
                break;
            };
            let hints = tokio::spawn(hints(
                self.context.connection.clone(),
                Arc::clone(&self.lanes),
                Arc::clone(&self.turns),
            ));
            let pulled = self.pull(&consumers, &mut parking, &stop).await;
            hints.abort();
            parking.call_all_back().await;
            if let Err(error) = pulled {
                tracing::warn!(error = %error.chain(), "pulling stopped, looking again");
                tokio::time::sleep(RETRY).await;
            }
        }
        self.jobs.close();
        if tokio::time::timeout(grace, self.jobs.wait()).await.is_err() {
            self.abort.cancel();
            self.jobs.wait().await;
        }
    }

    /// Waits until streams and consumers are as they should be; at start, and whenever a consumer went away.
    async fn verified(&self, stop: &CancellationToken) -> Option<Vec<Consumer<pull::Config>>> {
        let mut told = Vec::new();
        loop {
            let looked = tokio::select! {
                () = stop.cancelled() => return None,
                looked = self.consumers() => looked,
            };
            match looked {
                Ok(consumers) => {
                    self.context.health.set(CONDITION, None);
                    return Some(consumers);
                }
                Err(problems) => {
                    self.context
                        .health
                        .set(CONDITION, Some(problems.join("; ")));
                    if problems != told {
                        tracing::error!(problems = ?problems, "not ready: nothing is pulled");
                        told = problems;
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    async fn consumers(&self) -> std::result::Result<Vec<Consumer<pull::Config>>, Vec<String>> {
        let one = |error: String| vec![error];
        let highest = self
            .context
            .registry
            .highest_sequence()
            .await
            .map_err(|e| one(e.chain()))?;
        let problems = verify(&self.context.connection, highest).await;
        if !problems.is_empty() {
            return Err(problems);
        }
        let jetstream = &self.context.connection.jetstream;
        let stream = jetstream
            .get_stream(INGEST)
            .await
            .map_err(|e| one(e.to_string()))?;
        let mut consumers = Vec::with_capacity(LANES);
        for lane in 0..LANES {
            let consumer = stream.get_consumer(&lane_consumer(lane)).await;
            consumers.push(consumer.map_err(|e| one(e.to_string()))?);
        }
        Ok(consumers)
    }

    async fn pull(
        &self,
        consumers: &[Consumer<pull::Config>],
        parking: &mut Parking,
        stop: &CancellationToken,
    ) -> Result<()> {
        loop {
            let admitted = async {
                self.gate.passed().await;
                let permit = Arc::clone(&self.permits).acquire_owned().await;
                (permit, self.lanes.next().await)
            };
            let (permit, lane) = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                admitted = admitted => admitted,
            };
            let Ok(permit) = permit else {
                return Err(Error::internal("the permits are gone"));
            };
            // The gate may have closed while this waited for a permit; a dependency that stays down must not hold up the end.
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = self.gate.passed() => {}
            }
            let pulled = tokio::select! {
                pulled = one_message(&consumers[lane]) => pulled?,
                () = overdue(stop) => return Ok(()),
            };
            let Some((message, parked)) = self.turn(lane, pulled, parking).await else {
                continue;
            };
            let runner = JobRunner {
                context: self.context.clone(),
                gate: self.gate.clone(),
                abort: self.abort.clone(),
            };
            self.jobs.spawn(async move {
                runner.run(message, parked).await;
                drop(permit);
            });
        }
    }

    /// The job to carry out now, with how often it was parked, out of what a lane gave.
    async fn turn(
        &self,
        lane: usize,
        pulled: Option<Message>,
        parking: &mut Parking,
    ) -> Option<(Message, u64)> {
        let Some(message) = pulled else {
            locked(&self.turns).exhausted(lane, Instant::now());
            self.round_over(lane, parking).await;
            return None;
        };
        self.lanes.mark(lane);
        let sequence = message.info().map_or(0, |info| info.stream_sequence);
        let turn = locked(&self.turns).turn(lane, &message.subject, sequence, Instant::now());
        match turn {
            Turn::Run => {
                self.round_over(lane, parking).await;
                Some((message, parking.times(sequence)))
            }
            Turn::Park => {
                self.context.metrics.job_parked();
                parking.park(lane, sequence, message).await;
                None
            }
        }
    }

    /// Without a round nothing stays parked.
    async fn round_over(&self, lane: usize, parking: &mut Parking) {
        if parking.holds(lane) && !locked(&self.turns).in_round(lane) {
            parking.call_back(lane).await;
            self.lanes.mark(lane);
        }
    }
}

fn locked(turns: &Mutex<Turns>) -> MutexGuard<'_, Turns> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pull in work at the signal to stop has a second: a message cut off on its way would wait for the server's patience.
async fn overdue(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(RETRY).await;
}

/// One message, if there is one now.
async fn one_message(consumer: &Consumer<pull::Config>) -> Result<Option<Message>> {
    let failed =
        |e: Box<dyn std::error::Error + Send + Sync>| Error::dependency("a pull failed", e);
    let pulled = async {
        let mut batch = consumer
            .fetch()
            .max_messages(1)
            .messages()
            .await
            .map_err(|e| failed(Box::new(e)))?;
        batch.next().await.transpose().map_err(failed)
    };
    match tokio::time::timeout(PULL_LIMIT, pulled).await {
        Ok(message) => message,
        Err(elapsed) => Err(failed(Box::new(elapsed))),
    }
}

/// Marks lanes that got a message, and notes whose it is. Best effort: lanes are looked at every second anyway.
async fn hints(connection: Connection, lanes: Arc<Lanes>, turns: Arc<Mutex<Turns>>) {
    let mut hints = match connection.client.subscribe(HINTS).await {
        Ok(hints) => hints,
        Err(error) => {
            return tracing::warn!(error = %error, "no hints: lanes are looked at every second");
        }
    };
    while let Some(hint) = hints.next().await {
        let Some(lane) = subjects::hinted_lane(&hint.subject) else {
            continue;
        };
        let headers = Headers::of(hint.headers.as_ref());
        let sequence = headers.get("Nats-Sequence").and_then(|s| s.parse().ok());
        if let (Some(subject), Some(sequence)) = (headers.get("Nats-Subject"), sequence) {
            locked(&turns).hint(lane, subject, sequence);
        }
        lanes.mark(lane);
    }
}
