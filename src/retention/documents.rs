//! Documents whose time is over, and tombstones that have done their duty.
//!
//! Must not know retrievals.

use super::{GoOn, Progress, Retention};
use crate::error::{ErrorKind, Result};
use crate::model::{CorpusRef, DocumentId, RunState, Timestamp};
use crate::spi::{Buried, Ledger};

const PAGE: u32 = 200;

impl Retention {
    /// Buries what expires at the time of the order or before, and removes its points. A document that fails is noted, and
    /// the others go on.
    pub(super) async fn remove_expired(&self, progress: &mut Progress<'_>) -> Result<GoOn> {
        let registry = &self.parts.registry;
        let ledger = Ledger {
            run: progress.run.key.clone(),
        };
        // What an earlier run buried and could not clean up.
        for (corpus, document, buried) in registry.uncleaned(PAGE).await? {
            let cleaned = self.clean(&corpus, &document, buried).await;
            if !self.noted(progress, &corpus, cleaned).await? {
                return Ok(GoOn::Yes);
            }
        }
        let now = progress.run.ordered_at;
        let mut after: Option<(CorpusRef, DocumentId)> = None;
        loop {
            let go_on = self.go_on(progress).await?;
            if go_on != GoOn::Yes {
                return Ok(go_on);
            }
            let page = registry.expired(now, after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(GoOn::Yes);
            };
            after = Some(last.clone());
            for (corpus, document) in page {
                if !progress.run.order.means(&corpus) {
                    continue;
                }
                let gone = async {
                    match registry.expire(&corpus, &document, now, &ledger).await? {
                        Some(buried) => self.clean(&corpus, &document, buried).await,
                        None => Ok(()),
                    }
                };
                let gone = gone.await;
                if !self.noted(progress, &corpus, gone).await? {
                    return Ok(GoOn::Yes);
                }
            }
        }
    }

    /// Notes a failure. `false`: the store or SQL is down, and the next document would fare no better.
    async fn noted(
        &self,
        progress: &mut Progress<'_>,
        corpus: &CorpusRef,
        outcome: Result<()>,
    ) -> Result<bool> {
        let Err(error) = outcome else {
            return Ok(true);
        };
        progress.state = RunState::Failed;
        let note = format!(
            "{}/{}: an expired document could not be removed: {}",
            corpus.tenant,
            corpus.corpus,
            error.message()
        );
        self.note(progress, &note).await?;
        Ok(error.kind() != ErrorKind::DependencyFailed)
    }

    async fn clean(&self, corpus: &CorpusRef, document: &DocumentId, buried: Buried) -> Result<()> {
        let store = &self.parts.store;
        let at = self.parts.tenancy.place(corpus, buried.generation);
        if buried.unserved {
            match store.serve(&at).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        store.delete_below(&at, document, buried.live).await?;
        self.parts.registry.cleaned(corpus, document).await
    }

    /// Removes tombstones that no job can meet any more.
    pub(super) async fn drop_tombstones(&self, progress: &mut Progress<'_>) -> Result<GoOn> {
        let horizon = match self.parts.jobs.horizon().await {
            Ok(Some(horizon)) => horizon,
            Ok(None) => return Ok(GoOn::Yes),
            Err(error) => {
                progress.state = RunState::Failed;
                let note = format!("tombstones stay: {}", error.message());
                self.note(progress, &note).await?;
                return Ok(GoOn::Yes);
            }
        };
        let age = i64::try_from(horizon.replayable.as_micros()).unwrap_or(i64::MAX);
        let now = progress.run.ordered_at.as_micros();
        let unchanged_since = Timestamp::from_micros(now.saturating_sub(age));
        let ledger = Ledger {
            run: progress.run.key.clone(),
        };
        loop {
            let go_on = self.go_on(progress).await?;
            if go_on != GoOn::Yes {
                return Ok(go_on);
            }
            let dropped = self
                .parts
                .registry
                .drop_tombstones(horizon.below, unchanged_since, PAGE, &ledger)
                .await?;
            if dropped < u64::from(PAGE) {
                return Ok(GoOn::Yes);
            }
        }
    }
}
