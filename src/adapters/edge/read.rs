//! Reads other than queries: a document's chunks, points by id, counts, sizes. Must not know how shards are written.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use qdrant_edge as qe;
use qdrant_edge::external::ordered_float::OrderedFloat;

use super::engine::Engine;
use super::files;
use super::filter::{of_document, scoped};
use super::payload::{decode, decode_point, fence, point_id};
use super::shard::Shard;
use super::store::CollectionStats;
use crate::error::Result;
use crate::model::{ChunkId, DocumentId, StoredChunk, TenantId};
use crate::spi::Point;

const PAGE: usize = 500;

/// The chunks of a document with exactly this sequence, by ordinal.
pub(super) fn document(
    engine: &Engine,
    tenant: &TenantId,
    document: &DocumentId,
    sequence: u64,
) -> Result<Vec<StoredChunk>> {
    let exactly = Some(OrderedFloat(sequence as f64));
    let range = qe::Range {
        gte: exactly,
        lte: exactly,
        ..Default::default()
    };
    let filter = of_document(tenant, document, range)?;
    let mut chunks = Vec::new();
    let mut offset = None;
    loop {
        let request = qe::ScrollRequest {
            offset,
            limit: Some(PAGE),
            filter: Some(filter.clone()),
            with_payload: Some(qe::WithPayloadInterface::Bool(true)),
            with_vector: qe::WithVector::Bool(false),
            order_by: None,
        };
        let (page, next) = engine.read("scroll", |shard| shard.scroll(request))?;
        for record in page {
            let chunk = decode(record.id, record.payload)?;
            // A point found by its old version may have been replaced before it was read.
            if chunk.sequence == sequence {
                chunks.push(chunk);
            }
        }
        match next {
            Some(_) => offset = next,
            None => break,
        }
    }
    chunks.sort_by_key(|chunk| (chunk.chunk.ordinal, chunk.id));
    Ok(chunks)
}

/// The tenant's points among `ids`, with vectors.
pub(super) fn points(engine: &Engine, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<Point>> {
    let ids: Vec<qe::PointId> = ids.iter().map(|id| point_id(*id)).collect();
    let records = engine.read("retrieve", |shard| {
        let payload = qe::WithPayloadInterface::Bool(true);
        shard.retrieve(&ids, Some(payload), Some(qe::WithVector::Bool(true)))
    })?;
    let own = |record: &qe::Record| {
        fence(record.payload.as_ref()).is_some_and(|(owner, _)| owner == tenant.as_str())
    };
    records.into_iter().filter(own).map(decode_point).collect()
}

/// How many points the tenant has.
pub(super) fn count(engine: &Engine, tenant: &TenantId) -> Result<u64> {
    let request = qe::CountRequest {
        filter: Some(scoped(tenant, None)?),
        exact: true,
    };
    let count = engine.read("count", |shard| shard.count(request))?;
    Ok(count as u64)
}

/// Size figures, by name.
pub(super) fn stats(shards: &[Arc<Shard>]) -> Result<Vec<CollectionStats>> {
    let mut all = shards
        .iter()
        .map(|shard| one(shard))
        .collect::<Result<Vec<_>>>()?;
    all.sort_by(|a, b| a.collection.cmp(&b.collection));
    Ok(all)
}

fn one(shard: &Shard) -> Result<CollectionStats> {
    let engine = shard.current();
    let (wal_bytes, data_bytes) = shard.sizes();
    let points = match &engine {
        Some(engine) => engine.read("info", |shard| Ok(shard.info().points_count as u64))?,
        None => 0,
    };
    Ok(CollectionStats {
        collection: shard.name.clone(),
        open: engine.is_some(),
        points,
        wal_bytes,
        data_bytes,
        copies: shard.number.load(Ordering::Relaxed).saturating_sub(1),
    })
}

/// Whether the folder is there.
pub(super) fn folder(dir: &Path) -> Result<()> {
    let meta = std::fs::metadata(dir);
    meta.map(drop)
        .map_err(|cause| files::failed("read", dir, cause))
}
