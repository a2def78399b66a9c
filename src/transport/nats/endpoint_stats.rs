//! Counts of one endpoint, as the service protocol tells them. Must not know metrics of other kinds.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Error;

/// Requests, errors and time since the worker started.
#[derive(Debug)]
pub struct EndpointStats {
    verb: &'static str,
    requests: AtomicU64,
    errors: AtomicU64,
    nanos: AtomicU64,
    last_error: Mutex<String>,
}

impl EndpointStats {
    pub(super) fn new(verb: &'static str) -> Self {
        Self {
            verb,
            requests: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    /// A request was answered.
    pub(super) fn answered(&self, took: Duration, error: Option<&Error>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        if let Some(error) = error {
            self.errors.fetch_add(1, Ordering::Relaxed);
            let told = format!("{}:{}", error.kind().code(), error.message());
            *self
                .last_error
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = told;
        }
    }

    /// The endpoint as INFO shows it.
    pub(super) fn info(&self) -> Value {
        let verb = self.verb;
        json!({
            "name": verb,
            "subject": format!("rag.{verb}.*"),
            "queue_group": format!("rag-{verb}"),
            "metadata": {},
        })
    }

    /// The endpoint as STATS shows it; times in nanoseconds.
    pub(super) fn stats(&self) -> Value {
        let requests = self.requests.load(Ordering::Relaxed);
        let nanos = self.nanos.load(Ordering::Relaxed);
        let last_error = self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut stats = self.info();
        stats["num_requests"] = json!(requests);
        stats["num_errors"] = json!(self.errors.load(Ordering::Relaxed));
        stats["last_error"] = json!(last_error);
        stats["processing_time"] = json!(nanos);
        stats["average_processing_time"] = json!(nanos.checked_div(requests).unwrap_or(0));
        stats
    }
}
