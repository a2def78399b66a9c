//! What is known of corpora that are rebuilt into a new generation with other models.
//!
//! A rebuild copies document by document while jobs go on. It may be switched to only when every document's copy is of the
//! version that is being served, which one transaction checks and decides. One worker at a time works on a rebuild: it
//! holds a lease by the database's clock.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::{CorpusRef, DocumentId, ModelPair, Timestamp};

/// How far a rebuild is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebuildState {
    /// Documents are copied.
    Building,
    /// The new generation is the corpus'; the old one waits to be dropped.
    Switched,
    /// It was called off; what was built waits to be dropped.
    Cancelling,
    /// The old generation is gone.
    Done,
    /// What was built is gone.
    Cancelled,
}

impl RebuildState {
    /// Every state.
    pub const ALL: [RebuildState; 5] = [
        RebuildState::Building,
        RebuildState::Switched,
        RebuildState::Cancelling,
        RebuildState::Done,
        RebuildState::Cancelled,
    ];

    /// The stored name.
    pub const fn name(self) -> &'static str {
        match self {
            RebuildState::Building => "building",
            RebuildState::Switched => "switched",
            RebuildState::Cancelling => "cancelling",
            RebuildState::Done => "done",
            RebuildState::Cancelled => "cancelled",
        }
    }

    /// The state of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether nothing is left to do.
    pub const fn is_over(self) -> bool {
        matches!(self, RebuildState::Done | RebuildState::Cancelled)
    }
}

/// The newest rebuild of a corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuild {
    /// The corpus.
    pub corpus: CorpusRef,
    /// The generation that is built.
    pub generation: u32,
    /// The generation that it replaces.
    pub previous: u32,
    /// What it is built with.
    pub models: ModelPair,
    /// How far it is.
    pub state: RebuildState,
    /// What stopped the last attempt; empty = nothing.
    pub problem: String,
    /// Whether the replaced generation may be dropped by now.
    pub drop_due: bool,
    /// When it began.
    pub started_at: Timestamp,
}

/// Counts of a rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RebuildProgress {
    /// Documents of the corpus that are no tombstones.
    pub documents: u64,
    /// Those of them whose copy is of the version that is being served.
    pub built: u64,
    /// Chunks that the old generation lacked and that could not be copied.
    pub missing: u64,
}

/// A document whose copy isn't what is being served.
#[derive(Debug, Clone, PartialEq)]
pub struct Unbuilt {
    /// The document.
    pub document: DocumentId,
    /// Sequence of the points being served.
    pub live: u64,
    /// Its chunks; 0 for a tombstone.
    pub chunks: u32,
    /// Whether a write is open: its points may be replaced right now.
    pub open: bool,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// What an attempt to switch found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// The corpus' generation is the new one from now on.
    Switched,
    /// So many documents are not up to date yet.
    Behind(u64),
    /// The rebuild is over, or another worker's.
    Lost,
}

/// Rebuilds. Errors: `DependencyFailed` when SQL fails. Calls about a rebuild that is over, or of another generation, change
/// nothing.
#[async_trait]
pub trait RebuildRegistry: Send + Sync + fmt::Debug {
    /// Begins a rebuild with these models, or returns the one that isn't over; `None` when the corpus doesn't exist.
    async fn begin_rebuild(
        &self,
        corpus: &CorpusRef,
        models: &ModelPair,
    ) -> Result<Option<Rebuild>>;

    /// The newest rebuild of a corpus.
    async fn rebuild(&self, corpus: &CorpusRef) -> Result<Option<(Rebuild, RebuildProgress)>>;

    /// Calls a rebuild off that isn't switched to yet; returns how it stands.
    async fn cancel_rebuild(&self, corpus: &CorpusRef) -> Result<Option<Rebuild>>;

    /// Rebuilds of all tenants that aren't over and that nobody holds, oldest first: an operator call.
    async fn free_rebuilds(&self) -> Result<Vec<Rebuild>>;

    /// Takes, or holds on to, the right to work on a corpus' rebuild for so long; `None` when another has it or it is over.
    async fn lease_rebuild(
        &self,
        corpus: &CorpusRef,
        owner: &str,
        lease: Duration,
    ) -> Result<Option<Rebuild>>;

    /// Gives the right back. Only after the outcome of every write is known.
    async fn release_rebuild(&self, corpus: &CorpusRef, owner: &str) -> Result<()>;

    /// Notes what stopped an attempt; empty = nothing.
    async fn note_problem(&self, corpus: &CorpusRef, owner: &str, problem: &str) -> Result<()>;

    /// Builds another generation instead, from the beginning; `false` when the rebuild is not the owner's.
    async fn move_rebuild(&self, corpus: &CorpusRef, owner: &str, generation: u32) -> Result<bool>;

    /// Up to `limit` documents whose copy isn't what is being served, by id after `after`.
    async fn unbuilt(
        &self,
        corpus: &CorpusRef,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<Unbuilt>>;

    /// Before points of these documents are written: from now on a tombstone of one needs its copy cleaned up before the
    /// switch. `false` when the rebuild is over or not the owner's.
    async fn begin_copies(
        &self,
        corpus: &CorpusRef,
        generation: u32,
        owner: &str,
        documents: &[DocumentId],
    ) -> Result<bool>;

    /// The copy of a document stands at this sequence and nothing older is left; so many chunks were missing.
    async fn end_copy(
        &self,
        corpus: &CorpusRef,
        generation: u32,
        document: &DocumentId,
        live: u64,
        missing: u32,
    ) -> Result<()>;

    /// Makes the new generation the corpus', if every copy is up to date; the old one may be dropped after `grace`.
    async fn switch_rebuild(
        &self,
        corpus: &CorpusRef,
        generation: u32,
        owner: &str,
        grace: Duration,
    ) -> Result<Switch>;

    /// The store serves this generation from now on.
    async fn note_served(&self, corpus: &CorpusRef, generation: u32) -> Result<()>;

    /// The rebuild is over: `Done` or `Cancelled`.
    async fn end_rebuild(
        &self,
        corpus: &CorpusRef,
        generation: u32,
        state: RebuildState,
    ) -> Result<()>;
}
