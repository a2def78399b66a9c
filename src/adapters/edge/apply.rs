//! What write jobs do to a shard: compare sequences, upsert, delete, flush once, answer.
//!
//! Sequences are compared here and not by the engine's conditional upsert: the gate's holder owns the shard's writes,
//! and the stored vectors must be read anyway, because the engine keeps an old named vector that a replacing point
//! doesn't have when it moves the point to another segment. Must not know queues or threads.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use qdrant_edge as qe;
use qdrant_edge::external::ordered_float::OrderedFloat;

use super::engine::{Engine, json_path};
use super::filter::{of_document, scoped};
use super::payload::{chunk_id, encode, fence, point_id, sparse_legs};
use super::shard::{Gate, Shard};
use super::writer::Job;
use crate::adapters::payload_names::{SEQUENCE, TENANT};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{ChunkId, DocumentId, Leg, TenantId};
use crate::spi::Point;

/// Points of one engine call: a bound on how long it holds a segment's lock.
const MAX_POINTS: usize = 256;
const PAGE: usize = 1_000;

/// A write.
#[derive(Debug)]
pub(super) enum Work {
    /// Insert, or replace where the stored sequence is not newer; validated.
    Upsert {
        tenant: TenantId,
        points: Vec<Point>,
    },
    /// Delete a document's points with a sequence below.
    DeleteBelow {
        tenant: TenantId,
        document: DocumentId,
        below: u64,
    },
    /// Delete everything of a tenant.
    DeleteTenant { tenant: TenantId },
}

/// Does a batch of jobs with one flush and answers them. Returns whether it flushed.
pub(super) fn batch(shard: &Shard, jobs: Vec<Job>) -> bool {
    let mut gate = shard.gate();
    let engine = match shard.open(&mut gate) {
        Ok(engine) => engine,
        Err(error) => {
            answer_all(jobs, &error);
            return false;
        }
    };
    shard.wrote();
    let mut done = Vec::with_capacity(jobs.len());
    for Job { work, reply } in jobs {
        done.push((reply, apply(shard, &mut gate, &engine, &work)));
    }
    let flushed = flush(&mut gate, &engine);
    let broken = |result: &Result<u32>| result.as_ref().is_err_and(is_broken);
    if flushed.as_ref().is_err_and(is_broken) || done.iter().any(|(_, result)| broken(result)) {
        // The engine's state in memory is in doubt: the next use opens what was flushed.
        shard.abandon(&mut gate);
    }
    drop(gate);
    for (reply, result) in done {
        let result = match &flushed {
            Ok(()) => result,
            Err(error) => result.and(Err(again(error))),
        };
        // A caller that went away doesn't wait for it.
        drop(reply.send(result));
    }
    flushed.is_ok()
}

fn apply(shard: &Shard, gate: &mut Gate, engine: &Engine, work: &Work) -> Result<u32> {
    let changed = match work {
        Work::Upsert { tenant, points } => {
            let mut written = 0;
            for chunk in points.chunks(MAX_POINTS) {
                written += upsert(gate, engine, tenant, chunk)?;
            }
            written
        }
        Work::DeleteBelow {
            tenant,
            document,
            below,
        } => {
            let range = qe::Range {
                lt: Some(OrderedFloat(*below as f64)),
                ..Default::default()
            };
            delete(gate, engine, &of_document(tenant, document, range)?)?
        }
        Work::DeleteTenant { tenant } => delete(gate, engine, &scoped(tenant, None)?)?,
    };
    shard
        .changes
        .fetch_add(u64::from(changed), Ordering::Relaxed);
    Ok(changed)
}

fn upsert(gate: &mut Gate, engine: &Engine, tenant: &TenantId, points: &[Point]) -> Result<u32> {
    let stored = stored(engine, points)?;
    // The last of equal ids with the highest sequence wins, as if they came one by one.
    let mut wanted: BTreeMap<ChunkId, &Point> = BTreeMap::new();
    for point in points {
        let id = point.stored.id;
        let newest = wanted.get(&id).map(|other| other.stored.sequence);
        let newest = newest.or_else(|| stored.get(&id).map(|old| old.sequence));
        let foreign = stored
            .get(&id)
            .is_some_and(|old| old.tenant != tenant.as_str());
        if !foreign && newest.is_none_or(|newest| newest <= point.stored.sequence) {
            wanted.insert(id, point);
        }
    }
    if wanted.is_empty() {
        return Ok(0);
    }
    let encoded = wanted
        .values()
        .map(|point| encode(tenant, point))
        .collect::<Result<_>>()?;
    let insert = qe::PointInsertOperations::PointsList(encoded);
    engine.update(operation(qe::PointOperations::UpsertPoints(insert)))?;
    if let Some(journal) = &mut gate.journal {
        journal.written(wanted.keys().copied())?;
    }
    if !took_effect(engine, &wanted)? {
        return Err(ignored(gate));
    }
    for leg in [Leg::Sparse, Leg::Bm25] {
        let leftover = wanted.values().filter(|point| {
            let has = |vectors: &[Leg]| vectors.contains(&leg);
            let had = stored
                .get(&point.stored.id)
                .is_some_and(|old| has(&old.legs));
            had && !has(&legs_of(point))
        });
        let ids: Vec<qe::PointId> = leftover.map(|point| point_id(point.stored.id)).collect();
        if !ids.is_empty() {
            let names = vec![leg.name().to_owned()];
            let strip = qe::VectorOperations::DeleteVectors(ids.into(), names);
            engine.update(qe::UpdateOperation::VectorOperation(strip))?;
        }
    }
    Ok(wanted.len() as u32)
}

/// Whether a written point is there; one stands for all of its operation.
fn took_effect(engine: &Engine, wanted: &BTreeMap<ChunkId, &Point>) -> Result<bool> {
    let Some((id, point)) = wanted.first_key_value() else {
        return Ok(true);
    };
    let ids = [point_id(*id)];
    let payload = qe::WithPayloadInterface::Fields(vec![json_path(TENANT)?, json_path(SEQUENCE)?]);
    let read = engine.read("retrieve", |shard| {
        shard.retrieve(&ids, Some(payload), None)
    })?;
    let sequence = read
        .first()
        .and_then(|record| fence(record.payload.as_ref()));
    Ok(sequence.is_some_and(|(_, sequence)| sequence == point.stored.sequence))
}

/// What must be known of a stored point before it is replaced.
struct Stored {
    tenant: String,
    sequence: u64,
    legs: Vec<Leg>,
}

fn stored(engine: &Engine, points: &[Point]) -> Result<HashMap<ChunkId, Stored>> {
    let ids: Vec<qe::PointId> = points
        .iter()
        .map(|point| point_id(point.stored.id))
        .collect();
    let fields = vec![json_path(TENANT)?, json_path(SEQUENCE)?];
    let vectors = vec![Leg::Sparse.name().to_owned(), Leg::Bm25.name().to_owned()];
    let records = engine.read("retrieve", |shard| {
        let payload = qe::WithPayloadInterface::Fields(fields);
        shard.retrieve(&ids, Some(payload), Some(qe::WithVector::Selector(vectors)))
    })?;
    let mut stored = HashMap::with_capacity(records.len());
    for record in records {
        let (tenant, sequence) = fence(record.payload.as_ref())
            .ok_or_else(|| Error::internal("a stored point has no tenant or sequence"))?;
        let named = match &record.vector {
            Some(qe::VectorStructInternal::Named(named)) => Some(named),
            Some(qe::VectorStructInternal::Single(_) | qe::VectorStructInternal::MultiDense(_))
            | None => None,
        };
        let has = |leg: &Leg| named.is_some_and(|named| named.contains_key(leg.name()));
        let legs = [Leg::Sparse, Leg::Bm25].into_iter().filter(has).collect();
        stored.insert(
            chunk_id(record.id)?,
            Stored {
                tenant: tenant.to_owned(),
                sequence,
                legs,
            },
        );
    }
    Ok(stored)
}

fn legs_of(point: &Point) -> Vec<Leg> {
    let legs = sparse_legs(&point.vectors).into_iter();
    legs.filter(|(_, vector)| !vector.is_empty())
        .map(|(leg, _)| leg)
        .collect()
}

/// Deletes what a filter finds, page by page, and says how many went.
fn delete(gate: &mut Gate, engine: &Engine, filter: &qe::Filter) -> Result<u32> {
    let mut deleted = 0;
    let mut offset = None;
    loop {
        let (ids, next) = page(engine, filter, offset, PAGE)?;
        if !ids.is_empty() {
            let noted = ids
                .iter()
                .map(|id| chunk_id(*id))
                .collect::<Result<Vec<_>>>()?;
            deleted += ids.len() as u32;
            engine.update(operation(qe::PointOperations::DeletePoints { ids }))?;
            if let Some(journal) = &mut gate.journal {
                journal.deleted(&noted)?;
            }
        }
        match next {
            Some(_) => offset = next,
            None => break,
        }
    }
    if deleted > 0 && !page(engine, filter, None, 1)?.0.is_empty() {
        return Err(ignored(gate));
    }
    Ok(deleted)
}

type Page = (Vec<qe::PointId>, Option<qe::PointId>);

fn page(
    engine: &Engine,
    filter: &qe::Filter,
    offset: Option<qe::PointId>,
    limit: usize,
) -> Result<Page> {
    let request = qe::ScrollRequest {
        offset,
        limit: Some(limit),
        filter: Some(filter.clone()),
        with_payload: Some(qe::WithPayloadInterface::Bool(false)),
        with_vector: qe::WithVector::Bool(false),
        order_by: None,
    };
    let (page, next) = engine.read("scroll", |shard| shard.scroll(request))?;
    Ok((page.into_iter().map(|record| record.id).collect(), next))
}

/// The engine numbers operations by its log and skips those that are older than its data. When the log was lost (a
/// host that went down, a deleted file) it answers Ok and changes nothing. A copy numbers anew.
fn ignored(gate: &mut Gate) -> Error {
    gate.copy_at_open = true;
    Error::new(
        ErrorKind::DependencyFailed,
        "the shard's log was behind its data; try again",
    )
}

/// Makes everything applied durable; the gate's holder calls it.
pub(super) fn flush(gate: &mut Gate, engine: &Engine) -> Result<()> {
    engine.flush()?;
    match &mut gate.journal {
        Some(journal) => journal.sync(),
        None => Ok(()),
    }
}

fn operation(points: qe::PointOperations) -> qe::UpdateOperation {
    qe::UpdateOperation::PointOperation(points)
}

/// Inside the engine something broke that none of our checks foresaw.
fn is_broken(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Internal | ErrorKind::DependencyFailed
    )
}

fn answer_all(jobs: Vec<Job>, error: &Error) {
    for Job { work, reply } in jobs {
        // Deleting from what isn't there is done.
        let gone = error.kind() == ErrorKind::NotFound && !matches!(work, Work::Upsert { .. });
        drop(reply.send(if gone { Ok(0) } else { Err(again(error)) }));
    }
}

/// The same error for another waiter.
fn again(error: &Error) -> Error {
    // The same text for every job that shared the write; causes may name files and stay in logs.
    Error::new(error.kind(), error.message()).caused_by(error.chain())
}
