//! What can be set about the embedded store. Must not know where a setting came from.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of an [`EdgeVectorStore`](super::EdgeVectorStore).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeConfig {
    /// The folder that holds everything. Its owner makes sure that no second process opens it.
    pub dir: PathBuf,
    /// How many threads write; one shard is written by one of them at a time.
    pub writer_threads: usize,
    /// A shard unused for so long is closed; it is opened again on demand.
    pub idle_close: Duration,
    /// A shard is optimised after so many changed points.
    pub optimize_after: u64,
    /// A log below this size is never compacted.
    pub wal_floor: u64,
    /// A log larger than the floor and than this many times the data is compacted.
    pub wal_factor: u64,
    /// How many write jobs may wait; more are refused as `Overloaded`.
    pub max_queued: usize,
    /// How long `close` waits for queries and an optimisation to end. An optimisation that takes longer is safe to
    /// kill: the next opening repairs the shard.
    pub close_wait: Duration,
}

impl EdgeConfig {
    /// The defaults over a folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            writer_threads: 2,
            idle_close: Duration::from_secs(300),
            optimize_after: 5_000,
            wal_floor: 256 * 1024 * 1024,
            wal_factor: 4,
            max_queued: 1_024,
            close_wait: Duration::from_secs(20),
        }
    }

    /// Whether a log of this size is worth a compaction.
    pub(super) fn wal_too_large(&self, wal: u64, data: u64) -> bool {
        wal > self.wal_floor.max(self.wal_factor.saturating_mul(data))
    }
}
