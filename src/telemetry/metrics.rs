//! Every metric: name, unit, meaning, labels. Labels are closed sets, never a tenant, a query or an id.
//!
//! | name | unit | labels | meaning |
//! |---|---|---|---|
//! | `ragbus.ingest.jobs` | 1 | `outcome` | deliveries that ended: a status, `failed`, `retried`, or `given_back` (at a shutdown) |
//! | `ragbus.ingest.duration` | s | `outcome` | time from delivery to acknowledgement |
//! | `ragbus.ingest.in_flight` | 1 | | jobs in work |
//! | `ragbus.ingest.parked` | 1 | | jobs put aside so that another tenant of their lane had its turn |
//! | `ragbus.retention.runs` | runs | `state` | retention runs that ended, by how; `error`: one that stays open |
//! | `ragbus.retention.removed` | rows | `what` | retrievals, expired documents and tombstones that runs removed |
//! | `ragbus.ingest.paused` | 1 | | 1 while pulling pauses because a dependency is down |
//! | `ragbus.dead_letters` | 1 | `kind` | jobs moved to the dead letters |
//! | `ragbus.requests` | 1 | `endpoint`, `outcome` | requests answered: `ok` or an error kind |
//! | `ragbus.request.duration` | s | `endpoint` | time from receipt to reply |
//! | `ragbus.requests.in_flight` | 1 | `endpoint` | requests in work |
//! | `ragbus.retrieve.outcomes` | 1 | `outcome` | retrievals by outcome |
//! | `ragbus.stage.duration` | s | `stage` | own time of a retrieval stage |
//! | `ragbus.stage.degraded` | 1 | `stage` | retrievals in which a stage could not do all of its work |
//! | `ragbus.stage.model_calls` | 1 | `stage` | texts and pairs that a stage ran through a model |
//! | `ragbus.limits.refused` | 1 | `limit` | requests and jobs over a tenant's limit: `in_flight`, `requests_per_second`, `documents` or `expansion` |
//! | `ragbus.replies.refused` | 1 | | requests without a reply because its address is not allowed |
//! | `ragbus.tracking.events` | 1 | `outcome` | tracking events: `published`, `dropped` (buffer full, or worker going away), `refused` by the stream or unanswered |
//! | `ragbus.tracking.buffered` | 1 | | events that wait for the stream |
//! | `ragbus.tracking.recorded` | 1 | | retrievals that were stored |
//! | `ragbus.tracking.duplicates` | 1 | | events that were stored before |
//! | `ragbus.tracking.backlog` | 1 | | events in the stream that are not stored yet |
//! | `ragbus.tracking.lag` | s | | time from the stream to the tables |
//! | `ragbus.tracking.paused` | 1 | | 1 while the tracker waits for SQL |
//! | `ragbus.tracking.feedback` | 1 | `outcome` | judgements: `ok` or an error kind |
//! | `ragbus.nats.events` | 1 | `event` | connection events of the NATS client |
//! | `ragbus.model.texts` | 1 | `model` | texts run through a model |
//! | `ragbus.model.batches` | 1 | `model` | batches run through a model |
//! | `ragbus.model.tokens` | 1 | `model` | tokens run through a model, padding excluded |
//! | `ragbus.model.queue` | 1 | `class` | texts waiting for a model |
//! | `ragbus.store.points` | 1 | | points in open shards of the embedded store |
//! | `ragbus.store.log` | By | | bytes of the embedded store's write-ahead logs |

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, MeterProvider, UpDownCounter};

use super::TrackingMetrics;

/// Seconds: from a tenth of a millisecond to a minute.
const SECONDS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0,
];

/// Figures of one model, read when metrics are collected.
#[derive(Debug, Clone, Default)]
pub struct InferenceGauges {
    /// The model's id.
    pub model: String,
    /// Texts run so far.
    pub texts: u64,
    /// Batches run so far.
    pub batches: u64,
    /// Tokens run so far, padding excluded.
    pub tokens: u64,
}

/// What is read when metrics are collected.
#[derive(Clone)]
pub struct MetricsSetup {
    /// Figures of every model.
    pub inference: Arc<dyn Fn() -> Vec<InferenceGauges> + Send + Sync>,
    /// Interactive and bulk texts waiting.
    pub queue: Arc<dyn Fn() -> (u64, u64) + Send + Sync>,
    /// Points and log bytes of the store.
    pub store: Arc<dyn Fn() -> (u64, u64) + Send + Sync>,
}

impl std::fmt::Debug for MetricsSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MetricsSetup")
    }
}

/// Every instrument that is written to.
#[derive(Debug, Clone)]
pub struct Metrics {
    meter: Meter,
    jobs: Counter<u64>,
    job_duration: Histogram<f64>,
    jobs_in_flight: UpDownCounter<i64>,
    paused: Gauge<u64>,
    dead_letters: Counter<u64>,
    requests: Counter<u64>,
    request_duration: Histogram<f64>,
    requests_in_flight: UpDownCounter<i64>,
    outcomes: Counter<u64>,
    stage_duration: Histogram<f64>,
    stage_degraded: Counter<u64>,
    stage_calls: Counter<u64>,
    limited: Counter<u64>,
    parked: Counter<u64>,
    refused: Counter<u64>,
    retention_runs: Counter<u64>,
    retention_removed: Counter<u64>,
    events: Counter<u64>,
    tracking: TrackingMetrics,
}

impl Metrics {
    /// Instruments of this provider.
    pub fn new(provider: &impl MeterProvider) -> Self {
        let meter = provider.meter("ragbus");
        let counter = |name: &'static str| meter.u64_counter(name).build();
        let seconds = |name: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s");
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        Self {
            jobs: counter("ragbus.ingest.jobs"),
            job_duration: seconds("ragbus.ingest.duration"),
            jobs_in_flight: meter.i64_up_down_counter("ragbus.ingest.in_flight").build(),
            paused: meter.u64_gauge("ragbus.ingest.paused").build(),
            dead_letters: counter("ragbus.dead_letters"),
            requests: counter("ragbus.requests"),
            request_duration: seconds("ragbus.request.duration"),
            requests_in_flight: meter
                .i64_up_down_counter("ragbus.requests.in_flight")
                .build(),
            outcomes: counter("ragbus.retrieve.outcomes"),
            stage_duration: seconds("ragbus.stage.duration"),
            stage_degraded: counter("ragbus.stage.degraded"),
            stage_calls: counter("ragbus.stage.model_calls"),
            limited: counter("ragbus.limits.refused"),
            parked: counter("ragbus.ingest.parked"),
            refused: counter("ragbus.replies.refused"),
            retention_runs: counter("ragbus.retention.runs"),
            retention_removed: counter("ragbus.retention.removed"),
            events: counter("ragbus.nats.events"),
            tracking: TrackingMetrics::new(&meter),
            meter: meter.clone(),
        }
    }

    /// A retention run ended like this (`error`: it could not be carried on with), having removed so much.
    pub fn retention(&self, state: &'static str, removed: &[(&'static str, u64)]) {
        self.retention_runs.add(1, &[KeyValue::new("state", state)]);
        for (what, count) in removed {
            self.retention_removed
                .add(*count, &[KeyValue::new("what", *what)]);
        }
    }

    /// Those of tracking.
    pub fn tracking(&self) -> &TrackingMetrics {
        &self.tracking
    }

    /// Registers what is read when metrics are collected. Call it once.
    pub fn observe(&self, setup: &MetricsSetup) {
        self.observe_model("ragbus.model.texts", setup, |g| g.texts);
        self.observe_model("ragbus.model.batches", setup, |g| g.batches);
        self.observe_model("ragbus.model.tokens", setup, |g| g.tokens);
        let waiting = Arc::clone(&setup.queue);
        let queue = self.meter.u64_observable_gauge("ragbus.model.queue");
        queue
            .with_callback(move |observer| {
                let (interactive, bulk) = waiting();
                observer.observe(interactive, &[KeyValue::new("class", "interactive")]);
                observer.observe(bulk, &[KeyValue::new("class", "bulk")]);
            })
            .build();
        let store = Arc::clone(&setup.store);
        let points = self.meter.u64_observable_gauge("ragbus.store.points");
        points
            .with_callback(move |observer| observer.observe(store().0, &[]))
            .build();
        let store = Arc::clone(&setup.store);
        let log = self
            .meter
            .u64_observable_gauge("ragbus.store.log")
            .with_unit("By");
        log.with_callback(move |observer| observer.observe(store().1, &[]))
            .build();
    }

    fn observe_model(
        &self,
        name: &'static str,
        setup: &MetricsSetup,
        read: impl Fn(&InferenceGauges) -> u64 + Send + Sync + 'static,
    ) {
        let inference = Arc::clone(&setup.inference);
        let counter = self.meter.u64_observable_counter(name);
        counter
            .with_callback(move |observer| {
                for gauges in inference() {
                    observer.observe(
                        read(&gauges),
                        &[KeyValue::new("model", gauges.model.clone())],
                    );
                }
            })
            .build();
    }

    /// A job has begun.
    pub fn job_started(&self) {
        self.jobs_in_flight.add(1, &[]);
    }

    /// A job has ended.
    pub fn job_ended(&self, outcome: &'static str, took: Duration) {
        let labels = [KeyValue::new("outcome", outcome)];
        self.jobs_in_flight.add(-1, &[]);
        self.jobs.add(1, &labels);
        self.job_duration.record(took.as_secs_f64(), &labels);
    }

    /// Whether pulling pauses.
    pub fn ingest_paused(&self, paused: bool) {
        self.paused.record(u64::from(paused), &[]);
    }

    /// A job was moved to the dead letters.
    pub fn dead_letter(&self, kind: &'static str) {
        self.dead_letters.add(1, &[KeyValue::new("kind", kind)]);
    }

    /// A request has begun.
    pub fn request_started(&self, endpoint: &'static str) {
        self.requests_in_flight
            .add(1, &[KeyValue::new("endpoint", endpoint)]);
    }

    /// A request was answered.
    pub fn request_ended(&self, endpoint: &'static str, outcome: &'static str, took: Duration) {
        let endpoint = KeyValue::new("endpoint", endpoint);
        self.requests_in_flight
            .add(-1, std::slice::from_ref(&endpoint));
        self.request_duration
            .record(took.as_secs_f64(), std::slice::from_ref(&endpoint));
        self.requests
            .add(1, &[endpoint, KeyValue::new("outcome", outcome)]);
    }

    /// A retrieval has this outcome.
    pub fn retrieval(&self, outcome: &'static str) {
        self.outcomes.add(1, &[KeyValue::new("outcome", outcome)]);
    }

    /// A stage has taken this long and run so much through a model.
    pub fn stage(&self, stage: &'static str, took: Duration, model_calls: u32) {
        let stage = [KeyValue::new("stage", stage)];
        self.stage_duration.record(took.as_secs_f64(), &stage);
        self.stage_calls.add(model_calls.into(), &stage);
    }

    /// A stage could not do all of its work.
    pub fn degraded(&self, stage: &'static str) {
        self.stage_degraded.add(1, &[KeyValue::new("stage", stage)]);
    }

    /// A request or job was over a tenant's limit.
    pub fn limited(&self, limit: &'static str) {
        self.limited.add(1, &[KeyValue::new("limit", limit)]);
    }

    /// A job was put aside for another tenant's turn.
    pub fn job_parked(&self) {
        self.parked.add(1, &[]);
    }

    /// A reply address was refused.
    pub fn reply_refused(&self) {
        self.refused.add(1, &[]);
    }

    /// The NATS client reported this.
    pub fn nats_event(&self, event: &'static str) {
        self.events.add(1, &[KeyValue::new("event", event)]);
    }
}
