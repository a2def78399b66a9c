//! The background thread: optimises shards one at a time, compacts logs of quiet ones, closes idle ones.
//!
//! It has a thread of its own because an optimisation takes up to half a minute, and on a writer it would stall writes.
//! Must not know requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::apply;
use super::config::EdgeConfig;
use super::journal::Journal;
use super::meta;
use super::shard::Shard;
use crate::error::Result;

/// Does what a shard needs.
pub(super) fn tend(shard: &Arc<Shard>, config: &EdgeConfig) {
    if needs_optimizing(shard, config)
        && let Err(error) = optimize(shard)
    {
        shard.no_optimize.store(true, Ordering::Relaxed);
        tracing::error!(collection = %shard.name, error = %error.chain(), "an optimisation failed; none is tried until the next start");
    }
    // Readers go on during a compaction, so only writes count.
    if shard.current().is_some() && shard.quiet() >= config.idle_close {
        let mut gate = shard.gate();
        match shard.compact(&mut gate) {
            Ok(true) => tracing::info!(collection = %shard.name, "compacted a log"),
            Ok(false) => {}
            Err(error) => {
                tracing::error!(collection = %shard.name, error = %error.chain(), "a compaction failed");
            }
        }
        if shard.idle() >= config.idle_close {
            shard.close_unused(&gate);
        }
    }
}

/// Whether enough changed since the last optimisation of an open shard.
pub(super) fn needs_optimizing(shard: &Shard, config: &EdgeConfig) -> bool {
    shard.changes.load(Ordering::Relaxed) >= config.optimize_after
        && !shard.no_optimize.load(Ordering::Relaxed)
        && shard.current().is_some()
}

/// Optimises a shard beside its writes and queries. The journal exists from before the first proxy to after the flush
/// of the result, and both moments hold the gate, so no deletion falls between.
fn optimize(shard: &Shard) -> Result<()> {
    let engine = {
        let mut gate = shard.gate();
        let Some(engine) = shard.current().filter(|_| !gate.dropped) else {
            return Ok(());
        };
        gate.journal = Some(Journal::begin(&meta::journal(&shard.folder))?);
        shard.changes.store(0, Ordering::Relaxed);
        engine
    };
    let optimized = engine.optimize();
    let mut gate = shard.gate();
    let current = shard
        .current()
        .is_some_and(|current| Arc::ptr_eq(&current, &engine));
    if gate.dropped || !current {
        // Dropped, or given up after a failure: the journal stays for the repair.
        return optimized.map(drop);
    }
    let finished = optimized.and_then(|_| apply::flush(&mut gate, &engine));
    match (finished, gate.journal.take()) {
        // A journal that stays must not meet later writes that it doesn't note: the next opening ends it.
        (Ok(()), Some(journal)) => journal.end().inspect_err(|_| shard.abandon(&mut gate)),
        (Ok(()), None) => Ok(()),
        (Err(error), _) => {
            shard.abandon(&mut gate);
            Err(error)
        }
    }
}
