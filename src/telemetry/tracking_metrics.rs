//! Instruments of tracking; `metrics.rs` has the table. Must not know an event's content.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};

/// Seconds: from ten milliseconds to a day.
const SECONDS: [f64; 12] = [
    0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0,
];

/// Every instrument of tracking.
#[derive(Debug, Clone)]
pub struct TrackingMetrics {
    events: Counter<u64>,
    buffered: Gauge<u64>,
    recorded: Counter<u64>,
    duplicates: Counter<u64>,
    backlog: Gauge<u64>,
    lag: Histogram<f64>,
    paused: Gauge<u64>,
    feedback: Counter<u64>,
}

impl TrackingMetrics {
    pub(super) fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str| meter.u64_counter(name).build();
        let gauge = |name: &'static str| meter.u64_gauge(name).build();
        let lag = meter.f64_histogram("ragbus.tracking.lag").with_unit("s");
        Self {
            events: counter("ragbus.tracking.events"),
            buffered: gauge("ragbus.tracking.buffered"),
            recorded: counter("ragbus.tracking.recorded"),
            duplicates: counter("ragbus.tracking.duplicates"),
            backlog: gauge("ragbus.tracking.backlog"),
            lag: lag.with_boundaries(SECONDS.to_vec()).build(),
            paused: gauge("ragbus.tracking.paused"),
            feedback: counter("ragbus.tracking.feedback"),
        }
    }

    /// An event is in the stream.
    pub fn published(&self) {
        self.events.add(1, &[KeyValue::new("outcome", "published")]);
    }

    /// An event was dropped: the buffer was full, or the worker went away.
    pub fn dropped(&self) {
        self.events.add(1, &[KeyValue::new("outcome", "dropped")]);
    }

    /// The stream refused an event or didn't answer; it is tried again, unless a reply waited for it.
    pub fn refused(&self) {
        self.events.add(1, &[KeyValue::new("outcome", "refused")]);
    }

    /// So many events wait for the stream.
    pub fn buffered(&self, events: usize) {
        self.buffered.record(events as u64, &[]);
    }

    /// So many events were stored, and so many were stored before.
    pub fn recorded(&self, new: u64, duplicates: u64) {
        self.recorded.add(new, &[]);
        self.duplicates.add(duplicates, &[]);
    }

    /// So many events wait in the stream.
    pub fn backlog(&self, events: u64) {
        self.backlog.record(events, &[]);
    }

    /// From the stream to the tables.
    pub fn lag(&self, lag: Duration) {
        self.lag.record(lag.as_secs_f64(), &[]);
    }

    /// Whether pulling pauses.
    pub fn paused(&self, paused: bool) {
        self.paused.record(u64::from(paused), &[]);
    }

    /// A judgement ended like this.
    pub fn feedback(&self, outcome: &'static str) {
        self.feedback.add(1, &[KeyValue::new("outcome", outcome)]);
    }
}
