//! Admission of requests: a permit, and a guess whether the budget can still be kept. Pure but for the semaphore.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Share of the newest observation in the average service time, as a power of two: 1/8.
const SMOOTHING: u32 = 3;

/// Admits up to a number of requests at once.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    permits: Arc<Semaphore>,
    size: usize,
    parallelism: u64,
    service_micros: Arc<AtomicU64>,
}

impl Admission {
    /// `size` requests at once, of which `parallelism` really run beside each other.
    pub(super) fn new(size: usize, parallelism: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(size)),
            size,
            parallelism: parallelism.max(1) as u64,
            service_micros: Arc::new(AtomicU64::new(0)),
        }
    }

    /// A permit, unless all are taken or those before it will likely use up `budget`.
    pub(super) fn admit(&self, budget: Duration) -> Option<OwnedSemaphorePermit> {
        let ahead = (self.size - self.permits.available_permits()) as u64;
        let service = self.service_micros.load(Ordering::Relaxed);
        let wait = Duration::from_micros(service * ahead / self.parallelism);
        // A budget that no idle worker could keep is the caller's matter: it ends in a timeout, not in "overloaded".
        if wait > budget && Duration::from_micros(service) <= budget {
            return None;
        }
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Notes how long one request took when `ahead` others were in work.
    pub(super) fn observe(&self, took: Duration, beside: usize) {
        let share = (beside as u64 / self.parallelism).max(1);
        let sample = u64::try_from(took.as_micros()).unwrap_or(u64::MAX) / share;
        let old = self.service_micros.load(Ordering::Relaxed);
        let new = if old == 0 {
            sample
        } else {
            old - (old >> SMOOTHING) + (sample >> SMOOTHING)
        };
        self.service_micros.store(new, Ordering::Relaxed);
    }

    /// Requests in work.
    pub(super) fn in_work(&self) -> usize {
        self.size - self.permits.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_house_and_a_budget_used_up_by_others_are_refused() {
        let admission = Admission::new(3, 1);
        admission.observe(Duration::from_millis(100), 1);
        let admit = |ms| admission.admit(Duration::from_millis(ms));
        let (first, second) = (admit(1_000), admit(1_000));
        assert!(first.is_some() && second.is_some());
        assert!(admit(150).is_none(), "two before it take 200 ms");
        assert!(
            admit(50).is_some(),
            "hopeless even alone: it ends in a timeout"
        );
        let third = admit(1_000);
        assert!(third.is_some());
        assert!(admit(9_000).is_none(), "every permit is taken");
        drop(first);
        assert!(admit(9_000).is_some());
    }
}
