//! Rebuilds a corpus into a new generation with the current models, while queries and jobs go on.
//!
//! - A collection is prepared beside the served one.
//! - Documents are copied, again and again, until every copy is of the version that is served.
//! - One transaction of the registry, which no job can overtake, checks just that and makes the new generation the corpus';
//!   jobs that were writing into the old one notice it in their last step and start again.
//! - The store serves it, and after the longest time a request may take the old one is dropped.
//!
//! Any worker can go on where another stopped. Must not know NATS.

mod copying;
mod lease;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::model::CorpusRef;
use crate::spi::{
    DocumentRegistry, ModelSets, Rebuild, RebuildProgress, RebuildRegistry, RebuildState, Switch,
    VectorStore,
};
use crate::tenancy::{Placement, TenancyStrategy};
use copying::{Copier, OpenWrites};
use lease::Lease;

const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What a rebuilder is made of.
#[derive(Debug, Clone)]
pub struct RebuildParts {
    /// Rebuilds.
    pub rebuilds: Arc<dyn RebuildRegistry>,
    /// Documents.
    pub documents: Arc<dyn DocumentRegistry>,
    /// The store.
    pub store: Arc<dyn VectorStore>,
    /// The models; the current ones are those that corpora are rebuilt with.
    pub models: ModelSets,
    /// Where corpora live.
    pub tenancy: TenancyStrategy,
    /// This worker's name.
    pub owner: String,
    /// For how long a worker that says nothing keeps a rebuild. Longer than the store's limit for a write.
    pub lease: Duration,
    /// How long the old generation stays after the switch: as long as a request may take.
    pub grace: Duration,
}

/// How a corpus stands.
#[derive(Debug, Clone, PartialEq)]
pub enum RebuildStatus {
    /// Built with the current models; nothing was ever rebuilt.
    Current,
    /// Built with others; nothing is being rebuilt.
    Outdated,
    /// The newest rebuild.
    Rebuild(Box<Rebuild>, RebuildProgress),
}

/// Rebuilds corpora, one at a time.
#[derive(Debug, Clone)]
pub struct Rebuilder {
    parts: RebuildParts,
}

enum Worked {
    /// Nothing is left to do, here or now.
    Enough,
    /// Again, after a pause.
    Again,
}

impl Rebuilder {
    /// A rebuilder over these parts.
    pub fn new(parts: RebuildParts) -> Self {
        Self { parts }
    }

    /// Begins the rebuild of a corpus with the current models, unless it is built with them or one is under way.
    ///
    /// # Errors
    /// `NotFound` when the corpus doesn't exist; `SchemaConflict` when a rebuild with other models is under way.
    pub async fn begin(&self, corpus: &CorpusRef) -> Result<RebuildStatus> {
        let status = self.status(corpus).await?;
        let open = |rebuild: &Rebuild| !rebuild.state.is_over();
        match status {
            RebuildStatus::Rebuild(rebuild, progress) if open(&rebuild) => {
                self.same_models(&rebuild)?;
                return Ok(RebuildStatus::Rebuild(rebuild, progress));
            }
            _ if self.is_current(corpus).await? => return Ok(status),
            _ => {}
        }
        let models = self.parts.models.current().ids();
        let begun = self.parts.rebuilds.begin_rebuild(corpus, &models).await?;
        self.same_models(&begun.ok_or_else(no_corpus)?)?;
        tracing::info!(
            corpus = corpus.corpus.as_str(),
            "a rebuild of the corpus begins"
        );
        self.status(corpus).await
    }

    /// How a corpus stands.
    ///
    /// # Errors
    /// `NotFound` when it doesn't exist.
    pub async fn status(&self, corpus: &CorpusRef) -> Result<RebuildStatus> {
        let current = self.is_current(corpus).await?;
        Ok(match self.parts.rebuilds.rebuild(corpus).await? {
            Some((rebuild, progress)) => RebuildStatus::Rebuild(Box::new(rebuild), progress),
            None if current => RebuildStatus::Current,
            None => RebuildStatus::Outdated,
        })
    }

    /// Calls a rebuild off. After the switch there is nothing to call off.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn cancel(&self, corpus: &CorpusRef) -> Result<RebuildStatus> {
        self.parts.rebuilds.cancel_rebuild(corpus).await?;
        self.status(corpus).await
    }

    /// Whether the served generation was built with just what this worker builds with.
    async fn is_current(&self, corpus: &CorpusRef) -> Result<bool> {
        let info = self.parts.store.describe(corpus).await?;
        Ok(info.ok_or_else(no_corpus)?.schema == self.parts.models.current().schema())
    }

    fn same_models(&self, rebuild: &Rebuild) -> Result<()> {
        let own = self.parts.models.current().ids();
        if rebuild.models == own {
            return Ok(());
        }
        let message = format!(
            "a rebuild with {} and {} is under way, this worker builds with {} and {}",
            rebuild.models.dense, rebuild.models.sparse, own.dense, own.sparse
        );
        Err(Error::new(ErrorKind::SchemaConflict, message))
    }

    /// Works on every rebuild that nobody works on and that this worker can do, one after the other, until nothing more can
    /// be done now or `stop` says so.
    ///
    /// # Errors
    /// `DependencyFailed` when they can't be listed; what stops one rebuild is noted with it.
    pub async fn work(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<()> {
        for rebuild in self.parts.rebuilds.free_rebuilds().await? {
            // Whoever builds needs the models; whoever tidies up doesn't.
            let builds = rebuild.state == RebuildState::Building;
            if stop() || (builds && self.same_models(&rebuild).is_err()) {
                continue;
            }
            self.attempts(&rebuild, stop).await;
        }
        Ok(())
    }

    async fn attempts(&self, rebuild: &Rebuild, stop: &(dyn Fn() -> bool + Sync)) {
        let patience = OpenWrites::new(2 * self.parts.lease);
        let shortest = self.parts.store.write_limit() + PAUSE;
        let mut pause = shortest;
        loop {
            let pausing = match self.leased(rebuild, &patience, stop).await {
                Ok(Worked::Enough) => return,
                Ok(Worked::Again) => PAUSE,
                Err(error) => {
                    self.told(rebuild, &error).await;
                    pause = (pause * 2).min(LONGEST_PAUSE.max(shortest));
                    // A write whose outcome is unknown has landed by then, or never will.
                    pause
                }
            };
            if stop() {
                return;
            }
            tokio::time::sleep(pausing).await;
        }
    }

    async fn told(&self, rebuild: &Rebuild, error: &Error) {
        let corpus = rebuild.corpus.corpus.as_str();
        tracing::warn!(corpus, error = %error.chain(), "a rebuild stopped; it goes on later");
        let (rebuilds, owner) = (&self.parts.rebuilds, &self.parts.owner);
        let noted = rebuilds.note_problem(&rebuild.corpus, owner, error.message());
        if let Err(error) = noted.await {
            tracing::debug!(error = %error.chain(), "and that could not be noted");
        }
    }

    /// Takes the rebuild and works on it while it can be kept.
    async fn leased(
        &self,
        rebuild: &Rebuild,
        open: &OpenWrites,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Worked> {
        let asked = Instant::now();
        let Some(rebuild) = self.lease(rebuild).await? else {
            return Ok(Worked::Enough);
        };
        let lease = Lease::granted(asked, self.parts.lease);
        tokio::select! {
            worked = self.step(&rebuild, &lease, open, stop) => worked,
            () = self.keep(&rebuild, &lease) => Ok(Worked::Enough),
        }
    }

    async fn lease(&self, rebuild: &Rebuild) -> Result<Option<Rebuild>> {
        let RebuildParts {
            rebuilds,
            owner,
            lease,
            ..
        } = &self.parts;
        rebuilds.lease_rebuild(&rebuild.corpus, owner, *lease).await
    }

    /// Renews the lease until it is lost.
    async fn keep(&self, rebuild: &Rebuild, lease: &Lease) {
        loop {
            tokio::time::sleep(self.parts.lease / 4).await;
            let asked = Instant::now();
            match self.lease(rebuild).await {
                Ok(Some(found)) if found.generation == rebuild.generation => {
                    lease.renewed(asked, self.parts.lease);
                }
                Ok(_) => return,
                // Writes stop in time by themselves.
                Err(error) => tracing::debug!(error = %error.chain(), "a lease can't be renewed"),
            }
        }
    }

    async fn step(
        &self,
        rebuild: &Rebuild,
        lease: &Lease,
        open: &OpenWrites,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Worked> {
        match rebuild.state {
            RebuildState::Building => self.build(rebuild, lease, open, stop).await,
            RebuildState::Switched => self.tidy_up(rebuild).await,
            RebuildState::Cancelling => {
                self.drop_generation(rebuild, rebuild.generation).await?;
                self.end(rebuild, RebuildState::Cancelled).await?;
                Ok(Worked::Enough)
            }
            RebuildState::Done | RebuildState::Cancelled => Ok(Worked::Enough),
        }
    }

    async fn build(
        &self,
        rebuild: &Rebuild,
        lease: &Lease,
        open: &OpenWrites,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Worked> {
        let Some(to) = self.prepared(rebuild).await? else {
            return Ok(Worked::Again);
        };
        let corpus = &rebuild.corpus;
        let copier = Copier {
            parts: &self.parts,
            lease,
            corpus,
            from: self.place(rebuild, rebuild.previous),
            to,
            waiting: open,
        };
        let pass = copier.pass(stop).await?;
        if pass.lost || pass.stopped {
            self.release(rebuild).await?;
            return Ok(Worked::Enough);
        }
        if let Some((document, error)) = pass.refused {
            let message = format!(
                "document {} can't be embedded: {}",
                document.as_str(),
                error.message()
            );
            return Err(Error::new(error.kind(), message).caused_by(error));
        }
        let RebuildParts {
            rebuilds,
            owner,
            grace,
            ..
        } = &self.parts;
        let generation = copier.to.generation;
        match rebuilds
            .switch_rebuild(corpus, generation, owner, *grace)
            .await?
        {
            Switch::Switched => {
                tracing::info!(
                    corpus = corpus.corpus.as_str(),
                    generation,
                    copied = pass.copied,
                    "rebuilt and switched"
                );
                let switched = Rebuild {
                    generation,
                    ..rebuild.clone()
                };
                self.tidy_up(&switched).await
            }
            Switch::Behind(_) => Ok(Worked::Again),
            Switch::Lost => Ok(Worked::Enough),
        }
    }

    /// The collection that is built; `None` when the rebuild has moved on. In a shared collection another tenant may have
    /// taken the generation with other models: then a later one is taken.
    async fn prepared(&self, rebuild: &Rebuild) -> Result<Option<Placement>> {
        let schema = self.parts.models.current().schema();
        let to = self.place(rebuild, rebuild.generation);
        match self.parts.store.prepare(&to, &schema).await {
            Ok(()) => Ok(Some(to)),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::SchemaConflict | ErrorKind::NotFound
                ) =>
            {
                let (rebuilds, owner) = (&self.parts.rebuilds, &self.parts.owner);
                let next = to.generation + 1;
                rebuilds.move_rebuild(&rebuild.corpus, owner, next).await?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// After the switch: serve the new generation, and drop the old one when no request can be using it.
    async fn tidy_up(&self, rebuild: &Rebuild) -> Result<Worked> {
        let at = self.place(rebuild, rebuild.generation);
        match self.parts.store.serve(&at).await {
            Ok(()) => {}
            // The corpus was deleted meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let rebuilds = &self.parts.rebuilds;
        rebuilds
            .note_served(&rebuild.corpus, rebuild.generation)
            .await?;
        if !rebuild.drop_due {
            // Others are rebuilt meanwhile.
            self.release(rebuild).await?;
            return Ok(Worked::Enough);
        }
        for old in rebuild.previous..rebuild.generation {
            self.drop_generation(rebuild, old).await?;
        }
        self.end(rebuild, RebuildState::Done).await?;
        Ok(Worked::Enough)
    }

    async fn drop_generation(&self, rebuild: &Rebuild, generation: u32) -> Result<()> {
        let at = self.place(rebuild, generation);
        self.parts.store.drop_generation(&at).await
    }

    async fn end(&self, rebuild: &Rebuild, state: RebuildState) -> Result<()> {
        let (corpus, generation) = (&rebuild.corpus, rebuild.generation);
        self.parts
            .rebuilds
            .end_rebuild(corpus, generation, state)
            .await?;
        tracing::info!(
            corpus = corpus.corpus.as_str(),
            generation,
            state = state.name(),
            "a rebuild ended"
        );
        Ok(())
    }

    async fn release(&self, rebuild: &Rebuild) -> Result<()> {
        let (rebuilds, owner) = (&self.parts.rebuilds, &self.parts.owner);
        rebuilds.release_rebuild(&rebuild.corpus, owner).await
    }

    fn place(&self, rebuild: &Rebuild, generation: u32) -> Placement {
        self.parts.tenancy.place(&rebuild.corpus, generation)
    }
}

fn no_corpus() -> Error {
    Error::new(ErrorKind::NotFound, "the corpus does not exist")
}
