//! Counters of the inference pool: what went through models, what waits, what was dropped.
//!
//! Must not know metric names.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What one model did since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelStats {
    /// The model's id.
    pub id: String,
    /// Texts run through the model; a text that was run again after its batch failed counts twice.
    pub texts: u64,
    /// Calls of the model.
    pub batches: u64,
    /// Tokens of those texts, special tokens included.
    pub tokens: u64,
    /// Tokens with padding: what the model computed.
    pub padded_tokens: u64,
    /// Texts that ended in an error.
    pub failed: u64,
    /// Texts dropped unrun: past their deadline, without a caller, or the pool was dropped.
    pub dropped: u64,
    /// Time threads spent in the model.
    pub busy: Duration,
}

/// A snapshot of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InferenceStats {
    /// The models, in the order they were given.
    pub models: Vec<ModelStats>,
    /// Interactive texts that wait.
    pub interactive_queued: usize,
    /// Bulk texts that wait.
    pub bulk_queued: usize,
    /// Threads of the budget.
    pub threads: usize,
}

impl InferenceStats {
    /// The model's counters.
    pub fn model(&self, id: &str) -> Option<&ModelStats> {
        self.models.iter().find(|model| model.id == id)
    }
}

/// One model's counters, written by all threads.
#[derive(Debug, Default)]
pub(super) struct Counters {
    model: String,
    texts: AtomicU64,
    batches: AtomicU64,
    tokens: AtomicU64,
    padded_tokens: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    busy_micros: AtomicU64,
}

impl Counters {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            ..Self::default()
        }
    }

    /// The model's id.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// A call of the model with texts of these lengths.
    pub(super) fn ran(&self, lengths: impl Iterator<Item = usize> + Clone, busy: Duration) {
        let texts = lengths.clone().count();
        let longest = lengths.clone().max().unwrap_or(0);
        add(&self.texts, texts);
        add(&self.batches, 1);
        add(&self.tokens, lengths.sum());
        add(&self.padded_tokens, texts * longest);
        let micros = u64::try_from(busy.as_micros()).unwrap_or(u64::MAX);
        self.busy_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        add(&self.failed, 1);
    }

    pub(super) fn dropped(&self) {
        add(&self.dropped, 1);
    }

    pub(super) fn snapshot(&self) -> ModelStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ModelStats {
            id: self.model.clone(),
            texts: read(&self.texts),
            batches: read(&self.batches),
            tokens: read(&self.tokens),
            padded_tokens: read(&self.padded_tokens),
            failed: read(&self.failed),
            dropped: read(&self.dropped),
            busy: Duration::from_micros(read(&self.busy_micros)),
        }
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
