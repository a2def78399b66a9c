//! Kills the process between two steps of an ingest job, as a test asks for in the environment.

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;

use crate::spi::{IngestStep, StepObserver};

/// Variable with `<step>:<n>`: abort when the step is reached for the n-th time.
const VARIABLE: &str = "RAGBUS_TEST_ABORT_AT";

/// Aborts the process at a step, like `kill -9` would.
#[derive(Debug)]
pub struct AbortAt {
    step: IngestStep,
    left: AtomicU32,
}

impl AbortAt {
    /// From the environment; `None` when the variable is not set or names no step.
    pub fn from_env() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let (step, count) = text.split_once(':')?;
        let step = IngestStep::ALL.into_iter().find(|s| s.name() == step)?;
        Some(Self {
            step,
            left: AtomicU32::new(count.parse().ok()?),
        })
    }
}

#[async_trait]
impl StepObserver for AbortAt {
    async fn reached(&self, step: IngestStep) {
        if step == self.step && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            std::process::abort();
        }
    }
}
