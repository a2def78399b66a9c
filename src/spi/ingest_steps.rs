//! A seam between the steps of an ingest job, so that tests can stop a worker exactly there.

use std::fmt;

use async_trait::async_trait;

/// A point between two steps of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IngestStep {
    /// After step 1: the registry has decided.
    Begun,
    /// After step 2: parsed, cut and embedded.
    Embedded,
    /// After step 3: the points are durable.
    Stored,
    /// After step 4: the registry serves them.
    Committed,
    /// After step 5: older points are gone.
    Cleaned,
    /// After step 6: the result is published.
    Published,
}

impl IngestStep {
    /// Every step in order.
    pub const ALL: [IngestStep; 6] = [
        IngestStep::Begun,
        IngestStep::Embedded,
        IngestStep::Stored,
        IngestStep::Committed,
        IngestStep::Cleaned,
        IngestStep::Published,
    ];

    /// A short name.
    pub const fn name(self) -> &'static str {
        match self {
            IngestStep::Begun => "begun",
            IngestStep::Embedded => "embedded",
            IngestStep::Stored => "stored",
            IngestStep::Committed => "committed",
            IngestStep::Cleaned => "cleaned",
            IngestStep::Published => "published",
        }
    }
}

/// Told when a job reaches a step, before it goes on.
#[async_trait]
pub trait StepObserver: Send + Sync + fmt::Debug {
    /// The job has reached the step.
    async fn reached(&self, step: IngestStep);
}
