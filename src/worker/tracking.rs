//! What a worker does for tracking: publishes records of its own replies, stores those of all, and takes judgements.
//!
//! Must not know what a record holds.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::runtime::WorkerParts;
use crate::spi::RetrievalTracker;
use crate::transport::nats::{
    FeedbackEndpoint, FeedbackParts, TrackingConfig, TrackingConsumer, TrackingContext,
    TrackingPublisher,
};

/// Judgements in work at once: most of them wait for an event.
pub(super) const FEEDBACK_CONCURRENCY: usize = 256;
/// Time for the buffer after the last reply.
const GRACE: Duration = Duration::from_secs(5);

/// What tracking is made of.
#[derive(Debug, Clone)]
pub struct TrackingParts {
    /// How records are published; `None` = nothing is tracked.
    pub publishing: Option<TrackingConfig>,
    /// Where they are stored.
    pub tracker: Arc<dyn RetrievalTracker>,
    /// Records of one batch at most.
    pub batch: usize,
}

/// Carries the worker's own records to the stream until it is ended.
#[derive(Debug)]
pub(super) struct Publishing {
    publisher: Option<TrackingPublisher>,
    pump: Option<JoinHandle<()>>,
    stop: CancellationToken,
}

impl Publishing {
    pub(super) fn start(parts: &WorkerParts) -> Self {
        let stop = CancellationToken::new();
        let Some(config) = parts.tracking.publishing.clone() else {
            return Self {
                publisher: None,
                pump: None,
                stop,
            };
        };
        let (publisher, pump) =
            TrackingPublisher::new(parts.connection.clone(), config, parts.metrics.clone());
        Self {
            publisher: Some(publisher),
            pump: Some(tokio::spawn(pump.run(stop.clone(), GRACE))),
            stop,
        }
    }

    pub(super) fn publisher(&self) -> Option<TrackingPublisher> {
        self.publisher.clone()
    }

    /// Call it after the last request was answered.
    pub(super) async fn end(self) {
        self.stop.cancel();
        if let Some(pump) = self.pump {
            let _ = pump.await;
        }
    }
}

pub(super) fn consumer(parts: &WorkerParts) -> TrackingConsumer {
    TrackingConsumer::new(TrackingContext {
        connection: parts.connection.clone(),
        tracker: Arc::clone(&parts.tracking.tracker),
        batch: parts.tracking.batch,
        metrics: parts.metrics.clone(),
        health: parts.health.clone(),
    })
}

pub(super) fn feedback(parts: &WorkerParts) -> FeedbackEndpoint {
    let (default, most) = parts.timeouts_ms;
    FeedbackEndpoint::new(FeedbackParts {
        tracker: Arc::clone(&parts.tracking.tracker),
        budgets: (
            Duration::from_millis(default.into()),
            Duration::from_millis(most.into()),
        ),
        metrics: parts.metrics.clone(),
    })
}
