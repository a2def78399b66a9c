//! The process's budget of inference threads: starting, handing out encoders, closing.
//!
//! Must not know which part of the program uses which model.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::watch;

use super::call::LoadedModel;
use super::cross_encoder::OnnxCrossEncoder;
use super::encoders::{OnnxDenseEncoder, OnnxSparseEncoder, OnnxTokenCounter};
use super::engine::{Engine, OrtEngine};
use super::intake::Intake;
use super::manifest::{ModelFolder, Task};
use super::pool_config::{InferenceConfig, available_threads, check};
use super::runtime::OnnxRuntime;
use super::scheduler::{BatchLimits, Scheduler, draining};
use super::stats::{Counters, InferenceStats};
use super::tokenize::TextTokenizer;
use super::worker::Worker;
use crate::error::{Error, ErrorKind, Result};
use crate::spi::TokenCounter;

/// The pool. Keep it for as long as its encoders are used.
///
/// Dropping it fails what waits with `Draining` and blocks for the model calls that run, one small batch a thread:
/// a thread inside native code must not outlive `main`.
#[derive(Debug)]
pub struct InferencePool {
    models: Vec<Arc<LoadedModel>>,
    intake: Arc<Intake>,
    scheduler: Arc<Scheduler>,
    counters: Arc<[Counters]>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    thread_count: usize,
    /// Closes when no thread is left: each holds a sender.
    ended: watch::Receiver<()>,
}

impl InferencePool {
    /// Loads every model once per thread, one after the other, and starts the threads. Blocks for seconds.
    ///
    /// # Errors
    /// `InvalidField` when the configuration, a folder, a tokenizer or a graph isn't usable.
    pub fn start(
        runtime: &OnnxRuntime,
        config: &InferenceConfig,
        folders: Vec<ModelFolder>,
    ) -> Result<Self> {
        check(config, &folders)?;
        let thread_count = config.threads.unwrap_or_else(available_threads);
        let models = load_models(folders)?;
        let counters: Arc<[Counters]> = (models.iter())
            .map(|model| Counters::new(model.folder.id()))
            .collect();
        let limits = models.iter().map(|model| limits(&model.folder, config));
        let scheduler = Arc::new(Scheduler::new(limits.collect()));
        let (alive, ended) = watch::channel(());
        let pool = Self {
            intake: Arc::new(Intake::new(
                Arc::clone(&scheduler),
                config.interactive_capacity,
                config.bulk_capacity,
                thread_count,
            )),
            models,
            scheduler,
            counters,
            threads: Mutex::default(),
            thread_count,
            ended,
        };
        for number in 0..thread_count {
            // A failure drops the pool, which ends the threads that were started.
            pool.start_thread(number, runtime, alive.clone())?;
        }
        tracing::info!(
            threads = thread_count,
            models = ?pool.ids(),
            batch_tokens = config.batch_tokens,
            "started the inference pool"
        );
        Ok(pool)
    }

    fn start_thread(
        &self,
        number: usize,
        runtime: &OnnxRuntime,
        alive: watch::Sender<()>,
    ) -> Result<()> {
        let engines: Result<Vec<Box<dyn Engine>>> = (self.models.iter())
            .map(|model| load_engine(runtime, model))
            .collect();
        let worker = Worker {
            engines: engines?,
            scheduler: Arc::clone(&self.scheduler),
            counters: Arc::clone(&self.counters),
        };
        let thread = std::thread::Builder::new()
            .name(format!("inference-{number}"))
            .spawn(move || {
                // Dropped last, after the sessions.
                let _alive = alive;
                worker.run();
            })
            .map_err(|error| Error::internal("no inference thread").caused_by(error))?;
        self.handles().push(thread);
        Ok(())
    }

    /// The dense model `id`.
    ///
    /// # Errors
    /// `NotFound` when it isn't loaded or is no dense model.
    pub fn dense(&self, id: &str) -> Result<Arc<OnnxDenseEncoder>> {
        let model = self.of_task(id, "dense")?;
        let intake = Arc::clone(&self.intake);
        Ok(Arc::new(OnnxDenseEncoder::new(model, intake)))
    }

    /// The sparse model `id`.
    ///
    /// # Errors
    /// `NotFound` when it isn't loaded or is no sparse model.
    pub fn sparse(&self, id: &str) -> Result<Arc<OnnxSparseEncoder>> {
        let model = self.of_task(id, "sparse")?;
        let intake = Arc::clone(&self.intake);
        Ok(Arc::new(OnnxSparseEncoder::new(model, intake)))
    }

    /// The cross-encoder `id`.
    ///
    /// # Errors
    /// `NotFound` when it isn't loaded or is no cross-encoder.
    pub fn cross_encoder(&self, id: &str) -> Result<Arc<OnnxCrossEncoder>> {
        let model = self.of_task(id, "cross-encoder")?;
        let intake = Arc::clone(&self.intake);
        Ok(Arc::new(OnnxCrossEncoder::new(model, intake)))
    }

    /// A counter of the model's tokens.
    ///
    /// # Errors
    /// `NotFound` when the model isn't loaded.
    pub fn token_counter(&self, id: &str) -> Result<Arc<dyn TokenCounter>> {
        let tokenizer = Arc::clone(&self.find(id)?.tokenizer);
        Ok(Arc::new(OnnxTokenCounter::new(tokenizer)))
    }

    /// What was done and what waits, since the start. Cheap.
    pub fn stats(&self) -> InferenceStats {
        let (interactive_queued, bulk_queued) = self.scheduler.lengths();
        InferenceStats {
            models: self.counters.iter().map(Counters::snapshot).collect(),
            interactive_queued,
            bulk_queued,
            threads: self.thread_count,
        }
    }

    /// Refuses further work with `Draining`, runs what is queued to its end, ends the threads.
    ///
    /// Cancel safe: dropping the future, and then the pool, fails what still waits.
    pub async fn close(&self) {
        self.intake.close();
        self.scheduler.close();
        let mut ended = self.ended.clone();
        // Nothing is ever sent: this returns when the last sender is gone.
        while ended.changed().await.is_ok() {}
        self.join();
    }

    fn join(&self) {
        for thread in self.handles().drain(..) {
            if thread.join().is_err() {
                tracing::error!("an inference thread had panicked");
            }
        }
    }

    fn handles(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Result<&Arc<LoadedModel>> {
        (self.models.iter())
            .find(|model| model.folder.id() == id)
            .ok_or_else(|| not_found(format!("model {id} isn't loaded, only {:?}", self.ids())))
    }

    fn of_task(&self, id: &str, task: &str) -> Result<Arc<LoadedModel>> {
        let model = self.find(id)?;
        let actual = model.folder.task().name();
        if actual == task {
            Ok(Arc::clone(model))
        } else {
            Err(not_found(format!(
                "model {id} is a {actual} model, not a {task} one"
            )))
        }
    }

    fn ids(&self) -> Vec<&str> {
        self.models.iter().map(|model| model.folder.id()).collect()
    }
}

impl Drop for InferencePool {
    fn drop(&mut self) {
        self.intake.close();
        for job in self.scheduler.abort() {
            self.counters[job.model].dropped();
            job.answer(Err(draining()));
        }
        self.join();
    }
}

fn load_models(folders: Vec<ModelFolder>) -> Result<Vec<Arc<LoadedModel>>> {
    let loaded = folders.into_iter().enumerate().map(|(index, folder)| {
        let tokenizer = Arc::new(TextTokenizer::load(&folder)?);
        Ok(Arc::new(LoadedModel {
            index,
            folder,
            tokenizer,
        }))
    });
    loaded.collect()
}

fn load_engine(runtime: &OnnxRuntime, model: &LoadedModel) -> Result<Box<dyn Engine>> {
    let tokenizer = &model.tokenizer;
    let probe = match model.folder.task() {
        Task::Dense { .. } | Task::Sparse { .. } => tokenizer.tokenize("", "a trial run")?,
        Task::CrossEncoder { .. } => {
            let query = tokenizer.tokenize_query("", "a")?;
            tokenizer.tokenize_pair(&query, "", "trial run")?
        }
    };
    let padding = tokenizer.padding();
    let engine = OrtEngine::load(runtime, &model.folder, padding, &probe.input)?;
    Ok(Box::new(engine))
}

fn limits(folder: &ModelFolder, config: &InferenceConfig) -> BatchLimits {
    BatchLimits {
        tokens: config.batch_tokens,
        texts: if folder.batch_invariant() {
            usize::MAX
        } else {
            1
        },
    }
}

fn not_found(problem: String) -> Error {
    Error::new(ErrorKind::NotFound, problem)
}
