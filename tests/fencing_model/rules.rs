//! The parameters of the fencing model: a job set with its deliveries, and the simplifications of
//! the protocol that the negative tests switch on.

use crate::state::{Job, Status};

/// A protocol that leaves one rule out. Each must be caught, or its rule is not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simplification {
    /// A redelivery may start while the store can still apply the earlier delivery's call.
    UnboundedLateWrites,
    /// Step 5 is for jobs that were not superseded.
    NoCleanUpWhenSuperseded,
    /// `UNCHANGED` and metadata-only puts do not ask for `claimed` ≤ `sequence`.
    EqualHashesSuffice,
    /// `UNCHANGED` and metadata-only puts do not ask whether the row is deleted.
    TombstoneHashesCount,
    /// Step 3 replaces points of any sequence.
    UnconditionalUpsert,
    /// Step 4 does not look at the fence.
    NoFenceCheckAtCommit,
    /// Step 1 does not look at the fence.
    NoFenceCheckAtStart,
    /// A put creates its row in step 4 instead of step 1.
    RowCreatedAtCommit,
    /// `deleteCorpus` sets the fence to its own sequence even when that lowers it.
    FenceCanFall,
    /// `deleteCorpus` takes "older than s" to the letter and skips a row it deleted itself before
    /// it crashed.
    OwnTombstonesSkipped,
    /// Step 4 writes its own result over the one that another delivery of the job has stored.
    CommitReplacesResult,
    /// A metadata-only put keeps the vector of whatever point it finds, not only of its own text.
    VectorsOfAnyText,
    /// Step 1 of a put removes the old points before the new ones are written.
    OldPointsRemovedFirst,
}

/// One job set with its deliveries, and the protocol they follow.
#[derive(Clone, Debug)]
pub struct Protocol {
    pub jobs: Vec<Job>,
    /// The sequence of each delivery; a sequence that occurs twice is a duplicate delivery.
    pub deliveries: Vec<u8>,
    pub crashes: u8,
    pub simplification: Option<Simplification>,
    /// Statuses that some run must report.
    pub expected: Vec<Status>,
}

impl Protocol {
    pub fn omits(&self, simplification: Simplification) -> bool {
        self.simplification == Some(simplification)
    }

    pub fn sequence(&self, delivery: usize) -> u8 {
        self.deliveries[delivery]
    }

    pub fn job(&self, delivery: usize) -> Job {
        self.jobs[usize::from(self.sequence(delivery)) - 1]
    }
}
