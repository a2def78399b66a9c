//! Reads other than queries: pages of a filter's points, points by id, counts. Must not know marks.

use qdrant_client::qdrant as qd;

use super::call::{Caller, Failed, absent};
use super::filter::{exactly, of_document, of_tenant};
use super::payload::{decode, decode_point, owner, point_id};
use crate::error::Result;
use crate::model::{ChunkId, DocumentId, StoredChunk, TenantId};
use crate::spi::Point;

const PAGE: u32 = 500;

/// Everything a filter finds, page by page.
pub(super) async fn scroll(
    caller: &Caller,
    collection: &str,
    filter: &qd::Filter,
) -> Result<Vec<qd::RetrievedPoint>, Failed> {
    let mut found = Vec::new();
    let mut offset = None;
    loop {
        let page = caller.call("scroll", |client, seconds| {
            let request = qd::ScrollPoints {
                collection_name: collection.to_owned(),
                filter: Some(filter.clone()),
                offset: offset.clone(),
                limit: Some(PAGE),
                with_payload: Some(true.into()),
                with_vectors: Some(false.into()),
                timeout: Some(seconds),
                ..Default::default()
            };
            async move { Ok(client.scroll(request).await?) }
        });
        let page = page.await?;
        found.extend(page.result);
        offset = page.next_page_offset;
        if offset.is_none() {
            return Ok(found);
        }
    }
}

/// The chunks of a document with exactly this sequence, by ordinal.
pub(super) async fn document(
    caller: &Caller,
    collection: &str,
    tenant: &TenantId,
    document: &DocumentId,
    sequence: u64,
) -> Result<Vec<StoredChunk>> {
    let filter = of_document(tenant, document, exactly(sequence as f64));
    let found = scroll(caller, collection, &filter).await;
    let records = absent(found)?.unwrap_or_default().into_iter();
    let chunks = records.map(|record| decode(record.id, record.payload));
    let mut chunks = chunks.collect::<Result<Vec<_>>>()?;
    // A point found by its old version may have been replaced before it was read.
    chunks.retain(|chunk| chunk.sequence == sequence);
    chunks.sort_by_key(|chunk| (chunk.chunk.ordinal, chunk.id));
    Ok(chunks)
}

/// The tenant's points among `ids`, with vectors.
pub(super) async fn points(
    caller: &Caller,
    collection: &str,
    tenant: &TenantId,
    ids: &[ChunkId],
) -> Result<Vec<Point>> {
    let mut points = Vec::with_capacity(ids.len());
    for ids in ids.chunks(PAGE as usize) {
        let found = caller.call("get", |client, seconds| {
            let request = qd::GetPoints {
                collection_name: collection.to_owned(),
                ids: ids.iter().map(|id| point_id(*id)).collect(),
                with_payload: Some(true.into()),
                with_vectors: Some(true.into()),
                timeout: Some(seconds),
                ..Default::default()
            };
            async move { Ok(client.get_points(request).await?) }
        });
        let found = absent(found.await)?.map(|found| found.result);
        let own = |record: &qd::RetrievedPoint| owner(&record.payload) == Some(tenant.as_str());
        for record in found.unwrap_or_default().into_iter().filter(own) {
            points.push(decode_point(record)?);
        }
    }
    Ok(points)
}

/// How many of the tenant's points a filter finds; 0 without a collection.
pub(super) async fn count(caller: &Caller, collection: &str, filter: &qd::Filter) -> Result<u64> {
    let counted = caller.call("count", |client, seconds| {
        let request = qd::CountPoints {
            collection_name: collection.to_owned(),
            filter: Some(filter.clone()),
            exact: Some(true),
            timeout: Some(seconds),
            ..Default::default()
        };
        async move { Ok(client.count(request).await?) }
    });
    let counted = absent(counted.await)?.and_then(|counted| counted.result);
    Ok(counted.map_or(0, |result| result.count))
}

/// How many points the tenant has.
pub(super) async fn count_all(caller: &Caller, collection: &str, tenant: &TenantId) -> Result<u64> {
    count(caller, collection, &of_tenant(tenant)).await
}
