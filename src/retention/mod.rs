//! Retention: what is older than its window goes, what has expired goes, what is held stays, and every run is on record.
//!
//! A run is ordered under a key, by a tick or by hand, and carried out by whichever worker takes it; one that dies is taken
//! up by another, and totals stay exact, because each removal counts itself in its own transaction. Cutoffs are reckoned from
//! the database's clock at the time of the order. Must not know NATS, or a schedule.

mod documents;
mod purging;
mod schedule;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::model::{AdminAct, RetentionWindows, Run, RunOrder, RunState};
use crate::spi::{JobSource, RetentionRegistry, RetrievalTracker, VectorStore};
use crate::tenancy::TenancyStrategy;
pub use purging::Forecast;
pub use schedule::Schedule;

/// What retention is made of.
#[derive(Debug, Clone)]
pub struct RetentionParts {
    /// Runs, holds, due documents.
    pub registry: Arc<dyn RetentionRegistry>,
    /// What is purged.
    pub tracker: Arc<dyn RetrievalTracker>,
    /// Where the chunks of expired documents are.
    pub store: Arc<dyn VectorStore>,
    /// Which jobs may still come.
    pub jobs: Arc<dyn JobSource>,
    /// Where corpora live.
    pub tenancy: TenancyStrategy,
    /// For how long retrievals are kept.
    pub windows: RetentionWindows,
    /// The share of all retrievals that a run may remove, 0 to 1.
    pub max_share: f64,
    /// Rows that one transaction removes at most.
    pub batch: u32,
    /// Time that a run may take; the rest goes at the next one.
    pub budget: Duration,
    /// This worker's name.
    pub owner: String,
    /// For how long a worker that says nothing keeps a run.
    pub lease: Duration,
}

/// Carries out runs.
#[derive(Debug, Clone)]
pub struct Retention {
    parts: RetentionParts,
}

/// A run in work: its time, and what it could not do.
struct Progress<'a> {
    run: &'a Run,
    ends: Instant,
    state: RunState,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("run", &self.run.key)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Whether to go on with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GoOn {
    Yes,
    /// Its time is used up.
    OutOfTime,
    /// It is another worker's, or this one is going away.
    Leave,
}

impl Retention {
    /// Retention over these parts.
    pub fn new(parts: RetentionParts) -> Self {
        Self { parts }
    }

    /// Carries out every run that is open, one after the other. Returns how many ended here.
    ///
    /// # Errors
    /// `DependencyFailed` when runs can't be taken or ended; what fails inside of one is noted with it.
    pub async fn work(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<(Run, RunState)>> {
        let mut ended = Vec::new();
        while !stop() {
            let RetentionParts {
                registry,
                owner,
                lease,
                ..
            } = &self.parts;
            let Some(run) = registry.take_run(owner, *lease).await? else {
                break;
            };
            match self.carry_out(&run, stop).await? {
                Some(state) => ended.push((self.ended(&run, state).await?, state)),
                None => break,
            }
        }
        Ok(ended)
    }

    /// `None`: the run was left to another worker.
    async fn carry_out(
        &self,
        run: &Run,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<RunState>> {
        let mut progress = Progress {
            run,
            ends: Instant::now() + self.parts.budget,
            state: RunState::Done,
            stop,
        };
        let mut go_on = self.purge(&mut progress).await?;
        // A window by hand is about retrievals; tombstones, which no tenant knows of, are the schedule's alone.
        if run.order.days.is_none() && go_on == GoOn::Yes {
            go_on = self.remove_expired(&mut progress).await?;
        }
        if run.order == RunOrder::default() && go_on == GoOn::Yes {
            go_on = self.drop_tombstones(&mut progress).await?;
        }
        match go_on {
            GoOn::Yes => {}
            GoOn::OutOfTime => {
                self.note(
                    &progress,
                    "the time is used up: the rest goes at the next run",
                )
                .await?;
            }
            GoOn::Leave => return Ok(None),
        }
        Ok(Some(progress.state))
    }

    async fn ended(&self, run: &Run, state: RunState) -> Result<Run> {
        let registry = &self.parts.registry;
        registry.end_run(&run.key, &self.parts.owner, state).await?;
        let run = registry.run(&run.key).await?.unwrap_or_else(|| run.clone());
        let text = |name: Option<&str>| name.unwrap_or_default().to_owned();
        let counts = run.counts;
        let act = AdminAct {
            action: "retention.run".to_owned(),
            actor: run.order.actor.clone(),
            tenant: text(run.order.tenant.as_ref().map(|t| t.as_str())),
            corpus: text(run.order.corpus.as_ref().map(|c| c.as_str())),
            details: format!(
                r#"{{"run":"{}","state":"{}","retrievals":{},"chunks":{},"documents":{},"feedback":{},"expired":{},"tombstones":{}}}"#,
                run.key.escape_default(),
                state.name(),
                counts.tracking.retrievals,
                counts.tracking.chunks,
                counts.tracking.documents,
                counts.tracking.feedback,
                counts.expired,
                counts.tombstones
            ),
        };
        registry.record_act(&act).await?;
        Ok(run)
    }

    /// Before each batch: holds on to the run.
    async fn go_on(&self, progress: &Progress<'_>) -> Result<GoOn> {
        if (progress.stop)() {
            return Ok(GoOn::Leave);
        }
        if Instant::now() > progress.ends {
            return Ok(GoOn::OutOfTime);
        }
        let RetentionParts {
            registry,
            owner,
            lease,
            ..
        } = &self.parts;
        Ok(
            match registry.keep_run(&progress.run.key, owner, *lease).await? {
                true => GoOn::Yes,
                false => GoOn::Leave,
            },
        )
    }

    async fn note(&self, progress: &Progress<'_>, note: &str) -> Result<()> {
        self.parts.registry.note_run(&progress.run.key, note).await
    }
}
