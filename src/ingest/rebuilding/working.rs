//! One worker's part in rebuilds: takes one, works on it while it can be kept, and goes on after errors.
//!
//! Must not know how a document is copied.

use std::time::Duration;

use tokio::time::Instant;

use super::copying::{Copier, OpenWrites};
use super::lease::Lease;
use super::{RebuildParts, Rebuilder};
use crate::error::{Error, ErrorKind, Result};
use crate::spi::{Rebuild, RebuildState, Switch};
use crate::tenancy::Placement;

const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

enum Worked {
    /// Nothing is left to do, here or now.
    Enough,
    /// Again, after a pause.
    Again,
}

impl Rebuilder {
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
