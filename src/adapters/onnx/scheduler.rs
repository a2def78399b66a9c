//! Who runs next: two queues shared by all models and threads, and the choice of a batch.
//!
//! Interactive before bulk; in a class the oldest text decides, and texts of the same model and a similar length join
//! it. Must not know async code or how a model runs.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::output::Output;
use super::tokenize::TokenIds;
use crate::error::{Error, ErrorKind, Result};
use crate::spi::Priority;

/// How many waiting texts are looked at for one batch.
const WINDOW: usize = 64;

/// What a call of a model costs beside its tokens, in tokens: so much padding is cheaper than a call of its own.
/// Measured with MiniLM on one thread: 2.5 ms for 8 tokens alone, 1 ms within a batch.
const CALL_COST: usize = 16;

/// A tokenised text that waits.
#[derive(Debug)]
pub(super) struct Job {
    /// Position of the model in the pool.
    pub(super) model: usize,
    pub(super) input: TokenIds,
    pub(super) deadline: Option<Instant>,
    /// Closed when the caller is gone.
    pub(super) reply: oneshot::Sender<Result<Output>>,
    /// The room it takes in its queue; given back when it is taken to be run.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl Job {
    fn is_dead(&self, now: Instant) -> bool {
        self.reply.is_closed() || self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Ends the job. The caller may be gone, which is no fault.
    pub(super) fn answer(self, result: Result<Output>) {
        let _ = self.reply.send(result);
    }
}

/// What a thread shall do.
#[derive(Debug)]
pub(super) struct Work {
    /// Position of the model in the pool.
    pub(super) model: usize,
    /// The texts to run together.
    pub(super) batch: Vec<Job>,
}

/// How a model wants its batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLimits {
    /// Padded tokens; one longer text runs alone.
    pub(super) tokens: usize,
    /// Texts.
    pub(super) texts: usize,
}

#[derive(Debug, Default)]
struct Queues {
    interactive: VecDeque<Job>,
    bulk: VecDeque<Job>,
    idle: usize,
    closed: bool,
}

/// The queues. Bounded by whoever pushes: each job brings its room.
#[derive(Debug)]
pub(super) struct Scheduler {
    queues: Mutex<Queues>,
    changed: Condvar,
    limits: Vec<BatchLimits>,
}

impl Scheduler {
    /// A scheduler over models with these limits, in the pool's order.
    pub(super) fn new(limits: Vec<BatchLimits>) -> Self {
        Self {
            queues: Mutex::default(),
            changed: Condvar::new(),
            limits,
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues jobs, in order.
    ///
    /// # Errors
    /// `Draining` after [`Self::close`]; the jobs are dropped.
    pub(super) fn push(&self, priority: Priority, jobs: Vec<Job>) -> Result<()> {
        let mut queues = self.queues();
        if queues.closed {
            return Err(draining());
        }
        match priority {
            Priority::Interactive => queues.interactive.extend(jobs),
            Priority::Bulk => queues.bulk.extend(jobs),
        }
        drop(queues);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for work. `None` when the scheduler is closed and nothing is left. Jobs that died while they waited go
    /// to `bury`, which must be quick.
    pub(super) fn next(&self, bury: &dyn Fn(Job)) -> Option<Work> {
        let mut queues = self.queues();
        loop {
            if let Some(work) = self.take(&mut queues, bury) {
                return Some(work);
            }
            if queues.closed {
                return None;
            }
            queues.idle += 1;
            queues = (self.changed.wait(queues)).unwrap_or_else(PoisonError::into_inner);
            queues.idle -= 1;
        }
    }

    fn take(&self, queues: &mut Queues, bury: &dyn Fn(Job)) -> Option<Work> {
        let idle = queues.idle;
        take_from(&mut queues.interactive, &self.limits, idle, bury)
            .or_else(|| take_from(&mut queues.bulk, &self.limits, idle, bury))
    }

    /// Refuses further jobs; threads end when the queues are empty.
    pub(super) fn close(&self) {
        self.queues().closed = true;
        self.changed.notify_all();
    }

    /// Closes and gives back what waits, unrun.
    pub(super) fn abort(&self) -> Vec<Job> {
        let mut queues = self.queues();
        queues.closed = true;
        let mut jobs: Vec<Job> = queues.interactive.drain(..).collect();
        jobs.extend(queues.bulk.drain(..));
        drop(queues);
        self.changed.notify_all();
        jobs
    }

    /// Waiting texts: interactive, bulk.
    pub(super) fn lengths(&self) -> (usize, usize) {
        let queues = self.queues();
        (queues.interactive.len(), queues.bulk.len())
    }
}

/// The pool is going away.
pub(super) fn draining() -> Error {
    Error::new(ErrorKind::Draining, "the inference pool is closing")
}

/// Takes the oldest living job and those that fit it.
fn take_from(
    queue: &mut VecDeque<Job>,
    limits: &[BatchLimits],
    idle: usize,
    bury: &dyn Fn(Job),
) -> Option<Work> {
    let now = Instant::now();
    let head = loop {
        let job = queue.pop_front()?;
        if !job.is_dead(now) {
            break job;
        }
        bury(job);
    };
    let model = head.model;
    let mut limits = limits[model];
    let candidates: Vec<(usize, usize)> = (queue.iter().take(WINDOW).enumerate())
        .filter(|(_, job)| job.model == model && !job.is_dead(now))
        .map(|(index, job)| (index, job.input.len()))
        .collect();
    // Idle threads get their share: two short batches side by side beat one.
    limits.texts = limits.texts.min((candidates.len() + 1).div_ceil(idle + 1));
    let mut chosen = choose(head.input.len(), &candidates, limits);
    chosen.sort_unstable();
    let mut batch = vec![head];
    // From the back, so that the positions before stay valid.
    for index in chosen.into_iter().rev() {
        batch.extend(queue.remove(index));
    }
    for job in &mut batch {
        job.room = None;
    }
    Some(Work { model, batch })
}

/// Which candidates (position, tokens) join a text of `head` tokens: the nearest in length, while the padded batch
/// stays in its budget and padding costs less than another call.
fn choose(head: usize, candidates: &[(usize, usize)], limits: BatchLimits) -> Vec<usize> {
    let mut nearest = candidates.to_vec();
    nearest.sort_by_key(|&(_, tokens)| tokens.abs_diff(head));
    let (mut shortest, mut longest) = (head, head);
    let mut chosen = Vec::new();
    for (index, tokens) in nearest {
        if chosen.len() + 1 >= limits.texts {
            break;
        }
        let (low, high) = (shortest.min(tokens), longest.max(tokens));
        let fits = high * (chosen.len() + 2) <= limits.tokens;
        let is_similar = high - low <= CALL_COST.max(high / 4);
        if fits && is_similar {
            (shortest, longest) = (low, high);
            chosen.push(index);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LIMITS: BatchLimits = BatchLimits {
        tokens: 512,
        texts: usize::MAX,
    };

    fn job(model: usize, tokens: usize) -> (Job, oneshot::Receiver<Result<Output>>) {
        let (reply, receiver) = oneshot::channel();
        let input = TokenIds {
            ids: vec![0; tokens],
            second: tokens,
        };
        let job = Job {
            model,
            input,
            deadline: None,
            reply,
            room: None,
        };
        (job, receiver)
    }

    fn lengths(work: Option<Work>) -> Vec<usize> {
        let work = work.expect("there is work");
        work.batch.iter().map(|job| job.input.len()).collect()
    }

    fn none_dies(_: Job) {
        panic!("a job was buried")
    }

    #[test]
    fn a_batch_has_similar_lengths_and_keeps_its_budget() {
        let chosen = choose(
            100,
            &[(0, 250), (1, 90), (2, 110), (3, 12), (4, 104)],
            LIMITS,
        );
        assert_eq!(chosen, [4, 1, 2]);
        // 5 × 128 is above 512.
        assert_eq!(
            choose(128, &[(0, 128), (1, 128), (2, 128), (3, 128)], LIMITS).len(),
            3
        );
        // Very short texts join each other whatever their lengths.
        assert_eq!(choose(3, &[(0, 19), (1, 12)], LIMITS).len(), 2);
        // A text above the budget runs alone.
        assert!(choose(600, &[(0, 600), (1, 10)], LIMITS).is_empty());
        let alone = BatchLimits { texts: 1, ..LIMITS };
        assert!(choose(10, &[(0, 10)], alone).is_empty());
    }

    #[test]
    fn interactive_goes_first_then_the_oldest_and_models_do_not_mix() {
        let scheduler = Scheduler::new(vec![LIMITS, LIMITS]);
        let (mut bulk, mut keep): (Vec<Job>, Vec<_>) = [(0, 50), (1, 51), (0, 52)]
            .map(|(m, t)| job(m, t))
            .into_iter()
            .unzip();
        let (first, receiver) = job(0, 53);
        keep.push(receiver);
        scheduler
            .push(Priority::Bulk, std::mem::take(&mut bulk))
            .unwrap();
        scheduler.push(Priority::Interactive, vec![first]).unwrap();
        assert_eq!(lengths(scheduler.next(&none_dies)), [53]);
        assert_eq!(lengths(scheduler.next(&none_dies)), [50, 52]);
        assert_eq!(lengths(scheduler.next(&none_dies)), [51]);
        scheduler.close();
        assert!(scheduler.next(&none_dies).is_none());
    }

    #[test]
    fn jobs_without_caller_or_time_are_never_run() {
        let scheduler = Scheduler::new(vec![LIMITS]);
        let (gone, receiver) = job(0, 10);
        drop(receiver);
        let (mut late, _late) = job(0, 11);
        late.deadline = Some(Instant::now());
        let (mut alive, _alive) = job(0, 12);
        alive.deadline = Some(Instant::now() + Duration::from_secs(60));
        scheduler
            .push(Priority::Bulk, vec![gone, late, alive])
            .unwrap();
        let buried = std::cell::Cell::new(0);
        let work = scheduler.next(&|_| buried.set(buried.get() + 1));
        assert_eq!(lengths(work), [12]);
        assert_eq!(buried.get(), 2);
    }

    #[test]
    fn a_closed_scheduler_refuses_and_gives_back_what_waits() {
        let scheduler = Scheduler::new(vec![LIMITS]);
        let (waiting, _receiver) = job(0, 10);
        scheduler.push(Priority::Bulk, vec![waiting]).unwrap();
        assert_eq!(scheduler.abort().len(), 1);
        let (refused, _receiver) = job(0, 10);
        let error = scheduler.push(Priority::Bulk, vec![refused]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Draining);
        assert!(scheduler.next(&none_dies).is_none());
    }

    #[test]
    fn idle_threads_get_their_share() {
        let mut queue = VecDeque::new();
        let mut receivers = Vec::new();
        for _ in 0..8 {
            let (job, receiver) = job(0, 10);
            queue.push_back(job);
            receivers.push(receiver);
        }
        let work = take_from(&mut queue, &[LIMITS], 1, &none_dies);
        assert_eq!(lengths(work).len(), 4);
        let work = take_from(&mut queue, &[LIMITS], 0, &none_dies);
        assert_eq!(lengths(work).len(), 4);
    }
}
