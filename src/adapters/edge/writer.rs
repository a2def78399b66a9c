//! The write queue of each shard and the small pool that works it off.
//!
//! Jobs of a shard are applied in order by one thread at a time, and one flush serves all jobs of a batch (group
//! commit); a job is answered after its flush only. A caller that goes away doesn't take its job back. Must not know
//! how a job changes a shard.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::apply::{self, Work};
use super::shard::Shard;
use crate::error::{Error, ErrorKind, Result};

const MAX_BATCH: usize = 256;

/// A write and who waits for it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) reply: oneshot::Sender<Result<u32>>,
}

/// The jobs that wait for one shard.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    settled: Notify,
}

impl Queue {
    /// Waits until no job waits or is being worked on.
    pub(super) async fn settled(&self) {
        loop {
            let settled = self.settled.notified();
            if !lock(&self.waiting).in_line {
                return;
            }
            settled.await;
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    // Whether the shard stands in the pool's line or is being worked on.
    in_line: bool,
}

/// The shards that have work, and what the writer threads share.
#[derive(Debug)]
pub(super) struct Pool {
    line: Mutex<VecDeque<Arc<Shard>>>,
    wake: Condvar,
    queued: AtomicUsize,
    max_queued: usize,
    stopped: AtomicBool,
    flushes: AtomicUsize,
}

impl Pool {
    /// A pool without threads.
    pub(super) fn new(max_queued: usize) -> Self {
        Self {
            line: Mutex::default(),
            wake: Condvar::new(),
            queued: AtomicUsize::new(0),
            max_queued,
            stopped: AtomicBool::new(false),
            flushes: AtomicUsize::new(0),
        }
    }

    /// Queues work and returns where its answer comes.
    ///
    /// # Errors
    /// `Overloaded` when too much waits, `Draining` when the pool was stopped.
    pub(super) fn submit(
        &self,
        shard: &Arc<Shard>,
        work: Work,
    ) -> Result<oneshot::Receiver<Result<u32>>> {
        if self.queued.fetch_add(1, Ordering::AcqRel) >= self.max_queued {
            self.queued.fetch_sub(1, Ordering::AcqRel);
            return Err(Error::new(
                ErrorKind::Overloaded,
                "too many writes wait for the store",
            ));
        }
        let (reply, answer) = oneshot::channel();
        let mut line = lock(&self.line);
        if self.stopped.load(Ordering::Acquire) {
            self.queued.fetch_sub(1, Ordering::AcqRel);
            return Err(closed());
        }
        let mut waiting = lock(&shard.queue.waiting);
        waiting.jobs.push_back(Job { work, reply });
        if !std::mem::replace(&mut waiting.in_line, true) {
            line.push_back(shard.clone());
            self.wake.notify_one();
        }
        Ok(answer)
    }

    /// A writer thread: works until the pool is stopped and nothing waits.
    pub(super) fn work(&self, after_write: impl Fn(&Arc<Shard>)) {
        while let Some(shard) = self.next() {
            let batch = self.take(&shard);
            // A bug must not end the thread: the jobs' callers learn that their answer is lost.
            let done = catch_unwind(AssertUnwindSafe(|| apply::batch(&shard, batch)));
            if done.unwrap_or(false) {
                self.flushes.fetch_add(1, Ordering::Relaxed);
            }
            after_write(&shard);
            self.requeue(shard);
        }
    }

    /// Refuses new work; what waits is still done.
    pub(super) fn stop(&self) {
        // Under the lock, so that a thread about to wait doesn't miss it.
        let _line = lock(&self.line);
        self.stopped.store(true, Ordering::Release);
        self.wake.notify_all();
    }

    /// How many flushes served batches.
    pub(super) fn flushes(&self) -> usize {
        self.flushes.load(Ordering::Relaxed)
    }

    fn next(&self) -> Option<Arc<Shard>> {
        let mut line = lock(&self.line);
        loop {
            if let Some(shard) = line.pop_front() {
                return Some(shard);
            }
            if self.stopped.load(Ordering::Acquire) {
                return None;
            }
            line = self.wake.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn take(&self, shard: &Shard) -> Vec<Job> {
        let mut waiting = lock(&shard.queue.waiting);
        let count = waiting.jobs.len().min(MAX_BATCH);
        self.queued.fetch_sub(count, Ordering::AcqRel);
        waiting.jobs.drain(..count).collect()
    }

    /// Back to the end of the line when more came meanwhile: no shard starves another.
    fn requeue(&self, shard: Arc<Shard>) {
        let mut line = lock(&self.line);
        let mut waiting = lock(&shard.queue.waiting);
        waiting.in_line = !waiting.jobs.is_empty();
        if !waiting.in_line {
            drop(waiting);
            shard.queue.settled.notify_waiters();
        } else {
            drop(waiting);
            line.push_back(shard);
            self.wake.notify_one();
        }
    }
}

/// What a closed store answers.
pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Draining, "the store is closed")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
