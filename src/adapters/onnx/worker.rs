//! A thread of the inference budget: takes work, runs it, answers.
//!
//! Must not know async code or how a model is built.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::engine::Engine;
use super::output::Output;
use super::scheduler::{Job, Scheduler, Work};
use super::stats::Counters;
use super::tokenize::TokenIds;
use crate::error::{Error, Result};

/// One thread's models and what it shares with the others.
pub(super) struct Worker {
    /// This thread's own, by the pool's order.
    pub(super) engines: Vec<Box<dyn Engine>>,
    pub(super) scheduler: Arc<Scheduler>,
    /// By the pool's order.
    pub(super) counters: Arc<[Counters]>,
}

impl Worker {
    /// Works until the scheduler is closed and empty.
    pub(super) fn run(mut self) {
        let scheduler = Arc::clone(&self.scheduler);
        let counters = Arc::clone(&self.counters);
        while let Some(work) = scheduler.next(&|job| bury(&counters, job)) {
            self.serve(work);
        }
    }

    fn serve(&mut self, work: Work) {
        let Work { model, batch } = work;
        let inputs: Vec<&TokenIds> = batch.iter().map(|job| &job.input).collect();
        let outcome = self.call(model, &inputs);
        drop(inputs);
        match outcome {
            Ok(results) => {
                for (job, result) in batch.into_iter().zip(results) {
                    self.answer(job, result);
                }
            }
            Err(error) if batch.len() == 1 => {
                let mut batch = batch;
                if let Some(job) = batch.pop() {
                    self.answer(job, Err(error));
                }
            }
            Err(error) => {
                let model_id = self.counters[model].model();
                tracing::warn!(model = model_id, error = %error.chain(), "a batch failed; its texts run alone");
                for job in batch {
                    let result = self.call_single(model, &job.input);
                    self.answer(job, result);
                }
            }
        }
    }

    fn call_single(&mut self, model: usize, input: &TokenIds) -> Result<Output> {
        let mut results = self.call(model, &[input])?;
        results.pop().unwrap_or_else(|| Err(wrong_count()))
    }

    /// One call of the model. A panic is an error of the batch, and the thread goes on.
    fn call(&mut self, model: usize, inputs: &[&TokenIds]) -> Result<Vec<Result<Output>>> {
        let engine = &mut self.engines[model];
        let start = Instant::now();
        // An engine holds no state between calls, so a panic in one can't spoil the next.
        let outcome = catch_unwind(AssertUnwindSafe(|| engine.run(inputs)));
        let lengths = inputs.iter().map(|input| input.len());
        self.counters[model].ran(lengths, start.elapsed());
        let results = outcome.unwrap_or_else(|panic| {
            tracing::error!(
                model = self.counters[model].model(),
                panic = panic_text(&*panic),
                "the model's thread panicked"
            );
            Err(Error::internal("the model's thread panicked"))
        })?;
        if results.len() == inputs.len() {
            Ok(results)
        } else {
            Err(wrong_count())
        }
    }

    fn answer(&self, job: Job, result: Result<Output>) {
        if result.is_err() {
            self.counters[job.model].failed();
        }
        job.answer(result);
    }
}

/// Ends a job that died while it waited.
fn bury(counters: &[Counters], job: Job) {
    counters[job.model].dropped();
    job.answer(Err(Error::timeout("inference")));
}

fn wrong_count() -> Error {
    Error::internal("the model gave a wrong number of results")
}

/// Panic messages of ours and of the libraries name indices and shapes, not text.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("of an unknown kind")
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::scheduler::BatchLimits;
    use super::*;
    use crate::error::ErrorKind;
    use crate::spi::Priority;

    /// Fails or panics when a batch holds a bad id; echoes the ids otherwise.
    struct Moody;

    const FAILS: u32 = 666;
    const PANICS: u32 = 667;
    const BAD_OUTPUT: u32 = 668;

    impl Engine for Moody {
        fn run(&mut self, batch: &[&TokenIds]) -> Result<Vec<Result<Output>>> {
            let holds = |id| batch.iter().any(|input| input.ids.contains(&id));
            assert!(!holds(PANICS), "as told");
            if holds(FAILS) {
                return Err(Error::dependency("as told", "because"));
            }
            let results = batch.iter().map(|input| match input.ids[0] {
                BAD_OUTPUT => Err(Error::internal("not finite")),
                id => Ok(Output::Dense(vec![id as f32])),
            });
            Ok(results.collect())
        }
    }

    /// Runs ids as one batch through a worker's thread.
    fn serve(ids: &[u32]) -> (Vec<Result<Output>>, Arc<[Counters]>) {
        let limits = BatchLimits {
            tokens: 512,
            texts: 64,
        };
        let scheduler = Arc::new(Scheduler::new(vec![limits]));
        let counters: Arc<[Counters]> = Arc::new([Counters::new("moody")]);
        let (jobs, receivers): (Vec<Job>, Vec<_>) = (ids.iter())
            .map(|&id| {
                let (reply, receiver) = oneshot::channel();
                let input = TokenIds {
                    ids: vec![id],
                    second: 1,
                };
                let job = Job {
                    model: 0,
                    input,
                    deadline: None,
                    reply,
                    room: None,
                };
                (job, receiver)
            })
            .unzip();
        scheduler.push(Priority::Bulk, jobs).unwrap();
        scheduler.close();
        let worker = Worker {
            engines: vec![Box::new(Moody)],
            scheduler,
            counters: Arc::clone(&counters),
        };
        std::thread::spawn(|| worker.run()).join().unwrap();
        let results = receivers
            .into_iter()
            .map(|mut receiver| receiver.try_recv().unwrap());
        (results.collect(), counters)
    }

    #[test]
    fn one_bad_text_fails_alone() {
        let cases = [
            (FAILS, ErrorKind::DependencyFailed),
            (PANICS, ErrorKind::Internal),
            (BAD_OUTPUT, ErrorKind::Internal),
        ];
        for (bad, kind) in cases {
            let (results, counters) = serve(&[1, bad, 3]);
            let [first, second, third] = results.try_into().unwrap();
            assert_eq!(first.unwrap(), Output::Dense(vec![1.0]));
            assert_eq!(second.unwrap_err().kind(), kind);
            assert_eq!(third.unwrap(), Output::Dense(vec![3.0]));
            assert_eq!(counters[0].snapshot().failed, 1);
        }
    }

    #[test]
    fn a_text_that_fails_alone_is_not_run_again() {
        let (results, counters) = serve(&[FAILS]);
        assert!(results[0].is_err());
        assert_eq!(counters[0].snapshot().batches, 1);
    }
}
