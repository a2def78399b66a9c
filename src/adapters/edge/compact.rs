//! Copying a shard into a new folder: the engine never trims its log, and deleting a log loses later writes.
//!
//! The current folder changes with one atomic rename of `ragbus.json`, so a kill at any moment leaves the old shard or
//! the new one. The copy has no graph index until the next optimisation. Must not know why it is made.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use qdrant_edge as qe;

use super::engine::Engine;
use super::files;
use super::meta::shard_dir;
use super::payload::chunk_id;
use super::shard::{Gate, Shard};
use crate::error::{Error, Result};
use crate::model::ChunkId;

const PAGE: usize = 256;

/// Copies the points that are not `without` and makes the copy current; the old folder goes with its last handle.
/// A point that stands twice is copied once, in its newest version. Durable when it returns.
pub(super) fn copy(
    old: &Engine,
    shard: &Shard,
    gate: &mut Gate,
    without: &HashSet<ChunkId>,
) -> Result<Engine> {
    let mut next = gate.meta.clone();
    next.shard += 1;
    let path = shard_dir(&shard.folder, next.shard);
    files::remove_dir(&path)?;
    let new = Engine::create(&path, next.dimension())?;
    let copied = points(old, &new, without)?;
    new.flush()?;
    next.write(&shard.folder)?;
    old.retire(shard_dir(&shard.folder, gate.meta.shard));
    shard.number.store(next.shard, Ordering::Relaxed);
    gate.meta = next;
    shard.changes.store(copied, Ordering::Relaxed);
    tracing::info!(collection = %shard.name, points = copied, "copied a shard into a new folder");
    Ok(new)
}

fn points(old: &Engine, new: &Engine, without: &HashSet<ChunkId>) -> Result<u64> {
    let mut offset = None;
    let mut copied = 0;
    loop {
        let request = qe::ScrollRequest {
            offset,
            limit: Some(PAGE),
            filter: None,
            with_payload: Some(qe::WithPayloadInterface::Bool(true)),
            with_vector: qe::WithVector::Bool(true),
            order_by: None,
        };
        let (page, next) = old.read("scroll", |shard| shard.scroll(request))?;
        let mut kept = Vec::with_capacity(page.len());
        for record in page {
            if !without.contains(&chunk_id(record.id)?) {
                kept.push(point(record)?);
            }
        }
        copied += kept.len() as u64;
        if !kept.is_empty() {
            let insert =
                qe::PointOperations::UpsertPoints(qe::PointInsertOperations::PointsList(kept));
            new.update(qe::UpdateOperation::PointOperation(insert))?;
        }
        match next {
            Some(_) => offset = next,
            None => return Ok(copied),
        }
    }
}

fn point(record: qe::Record) -> Result<qe::PointStructPersisted> {
    let vector = record
        .vector
        .ok_or_else(|| Error::internal("a stored point has no vectors"))?;
    Ok(qe::PointStructPersisted {
        id: record.id,
        vector: qe::VectorStructPersisted::from(vector),
        payload: record.payload,
    })
}
