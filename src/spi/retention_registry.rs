//! What retention remembers: its runs, legal holds, and every administrative act; and the documents that are due.
//!
//! Must not know why something is due.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::Buried;
use crate::error::Result;
use crate::model::{
    AdminAct, CorpusName, CorpusRef, DocumentId, Hold, HoldScope, Run, RunOrder, RunState,
    TenantId, Timestamp,
};

/// A run's counter that a removal adds to, in the removal's own transaction: so a run that is killed and resumed ends with
/// exact totals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// The run's key.
    pub run: String,
}

/// The registry of retention. Errors: `DependencyFailed` when SQL fails.
#[async_trait]
pub trait RetentionRegistry: Send + Sync + fmt::Debug {
    /// Orders a run under its key; one that is there already is left alone. Returns the run.
    async fn order_run(&self, key: &str, order: &RunOrder) -> Result<Run>;

    /// A run.
    async fn run(&self, key: &str) -> Result<Option<Run>>;

    /// The newest runs, newest first: an operator call.
    async fn runs(&self, limit: u32) -> Result<Vec<Run>>;

    /// The oldest open run that nobody holds, held by `owner` from now on for so long. No two runs are held at once, so that
    /// purges never meet. `None` when there is nothing to do.
    async fn take_run(&self, owner: &str, lease: Duration) -> Result<Option<Run>>;

    /// Holds on to a run; `false` when it is another's by now, or over.
    async fn keep_run(&self, key: &str, owner: &str, lease: Duration) -> Result<bool>;

    /// Adds a note to an open run; one that is there already is not added again.
    async fn note_run(&self, key: &str, note: &str) -> Result<()>;

    /// The run has ended.
    async fn end_run(&self, key: &str, owner: &str, state: RunState) -> Result<()>;

    /// Adds a legal hold.
    async fn add_hold(&self, hold: &Hold) -> Result<()>;

    /// A tenant's holds in force, oldest first.
    async fn holds(&self, tenant: &TenantId) -> Result<Vec<Hold>>;

    /// Ends a hold of a tenant; `None` when there is none of that name in force.
    async fn release_hold(
        &self,
        tenant: &TenantId,
        id: &str,
        actor: &str,
    ) -> Result<Option<HoldScope>>;

    /// Records an administrative act.
    async fn record_act(&self, act: &AdminAct) -> Result<()>;

    /// A tenant's acts, newest first; an operator's of no tenant are kept under the empty name.
    async fn acts(&self, tenant: &str, limit: u32) -> Result<Vec<(Timestamp, AdminAct)>>;

    /// Up to `limit` documents of all tenants that expire at `now` or before, by tenant, corpus and id behind `after`: an
    /// operator call.
    async fn expired(
        &self,
        now: Timestamp,
        after: Option<&(CorpusRef, DocumentId)>,
        limit: u32,
    ) -> Result<Vec<(CorpusRef, DocumentId)>>;

    /// Buries a document that expires at `now` or before: its row becomes a tombstone of the same sequence, and a clean-up is
    /// noted until [`cleaned`](Self::cleaned). `None` when it isn't due any more, or a legal hold covers it.
    async fn expire(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        now: Timestamp,
        ledger: &Ledger,
    ) -> Result<Option<Buried>>;

    /// Up to `limit` documents that were buried and whose points may still be there: an operator call.
    async fn uncleaned(&self, limit: u32) -> Result<Vec<(CorpusRef, DocumentId, Buried)>>;

    /// The points of a buried document are gone.
    async fn cleaned(&self, corpus: &CorpusRef, document: &DocumentId) -> Result<()>;

    /// Removes up to `limit` tombstones whose sequence and claim are below `below`, unchanged since `unchanged_since`, of
    /// corpora without a rebuild; returns how many.
    async fn drop_tombstones(
        &self,
        below: u64,
        unchanged_since: Timestamp,
        limit: u32,
        ledger: &Ledger,
    ) -> Result<u64>;

    /// Removes the tenant's tombstones up to a sequence, whatever their age: to forget it; those of a corpus that is being
    /// rebuilt stay. Returns how many.
    async fn forget_tombstones(&self, tenant: &TenantId, sequence: u64) -> Result<u64>;

    /// The tenant's corpora that exist or existed: their rows stay, because dropped generations must not come back.
    async fn known_corpora(&self, tenant: &TenantId) -> Result<Vec<CorpusName>>;
}

/// Which jobs may still come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobHorizon {
    /// No job below this sequence waits to be carried out.
    pub below: u64,
    /// No job that was buried longer ago than this can be replayed.
    pub replayable: Duration,
}

/// Tells which jobs may still come: tombstones that are older than all of them have done their duty.
#[async_trait]
pub trait JobSource: Send + Sync + fmt::Debug {
    /// `None` when it can't be told.
    async fn horizon(&self) -> Result<Option<JobHorizon>>;
}
