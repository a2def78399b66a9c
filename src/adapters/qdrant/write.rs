//! Writes: bounded batches, conditional on the stored sequence; deletes by filter.
//!
//! The condition is the server's to judge, in the order of its log, so a read beforehand isn't needed and a late write
//! can't undo a newer one. It belongs to a whole call, so points of different sequences go in different calls. Must not
//! know marks.

use std::collections::BTreeMap;

use prost::Message;
use qdrant_client::qdrant as qd;

use super::call::{Caller, Failed, absent, applied};
use super::filter::{among, exactly, of_document, of_tenant, up_to};
use super::payload::{encode, sparse_legs};
use super::read::count;
use crate::error::Result;
use crate::model::{ChunkId, DocumentId, Leg, TenantId};
use crate::spi::Point;

/// Where and how a tenant's points are written.
pub(super) struct Writer<'a> {
    pub(super) caller: &'a Caller,
    pub(super) collection: &'a str,
    pub(super) tenant: &'a TenantId,
    /// Points of a batch.
    pub(super) points: usize,
    /// Encoded bytes of a batch.
    pub(super) bytes: usize,
    /// Whether there may be copies, which must see writes in one order.
    pub(super) replicated: bool,
}

impl Writer<'_> {
    /// Inserts points, or replaces those with the same or a lower sequence.
    pub(super) async fn upsert(&self, points: Vec<Point>) -> Result<()> {
        // Equal ids: the last of those with the highest sequence wins, as if they came one by one.
        let mut newest: BTreeMap<ChunkId, Point> = BTreeMap::new();
        for point in points {
            let other = newest.get(&point.stored.id);
            if other.is_none_or(|other| other.stored.sequence <= point.stored.sequence) {
                newest.insert(point.stored.id, point);
            }
        }
        let mut by_sequence: BTreeMap<u64, Vec<Point>> = BTreeMap::new();
        for point in newest.into_values() {
            let group = by_sequence.entry(point.stored.sequence).or_default();
            group.push(point);
        }
        for (sequence, group) in by_sequence {
            self.replace(sequence, &group).await?;
        }
        Ok(())
    }

    async fn replace(&self, sequence: u64, points: &[Point]) -> Result<()> {
        let encoded = points.iter().map(|point| encode(self.tenant, point));
        let not_newer = qd::Range {
            lte: Some(sequence as f64),
            ..Default::default()
        };
        let condition = up_to(self.tenant, not_newer);
        for batch in batches(encoded, self.points, self.bytes) {
            self.send(batch, &condition).await?;
        }
        for leg in [Leg::Sparse, Leg::Bm25] {
            let lacks = points.iter().filter(|point| !has(point, leg));
            let ids: Vec<ChunkId> = lacks.map(|point| point.stored.id).collect();
            for ids in ids.chunks(self.points.max(1)) {
                self.strip(leg, ids, sequence).await?;
            }
        }
        Ok(())
    }

    async fn send(
        &self,
        points: Vec<qd::PointStruct>,
        condition: &qd::Filter,
    ) -> Result<(), Failed> {
        let upsert = self.caller.call("upsert", |client, seconds| {
            let request = qd::UpsertPoints {
                collection_name: self.collection.to_owned(),
                wait: Some(true),
                points: points.clone(),
                ordering: self.ordering(),
                update_filter: Some(condition.clone()),
                timeout: Some(seconds),
                ..Default::default()
            };
            async move { applied(client.upsert_points(request).await?) }
        });
        upsert.await
    }

    /// Takes a vector away that a replaced point had and its successor hasn't: the server keeps it when it moves a point
    /// out of a finished segment. A newer point that came meanwhile is left alone.
    async fn strip(&self, leg: Leg, ids: &[ChunkId], sequence: u64) -> Result<(), Failed> {
        let own = up_to(self.tenant, exactly(sequence as f64));
        let filter = among(own, ids.iter().copied());
        let strip = self.caller.call("delete_vectors", |client, seconds| {
            let request = qd::DeletePointVectors {
                collection_name: self.collection.to_owned(),
                wait: Some(true),
                points_selector: Some(filter.clone().into()),
                vectors: Some(qd::VectorsSelector {
                    names: vec![leg.name().to_owned()],
                }),
                ordering: self.ordering(),
                timeout: Some(seconds),
                ..Default::default()
            };
            async move { applied(client.delete_vectors(request).await?) }
        });
        strip.await
    }

    /// Deletes a document's points with a sequence below, and says how many there were just before.
    pub(super) async fn delete_below(&self, document: &DocumentId, below: u64) -> Result<u32> {
        let older = qd::Range {
            lt: Some(below as f64),
            ..Default::default()
        };
        let filter = of_document(self.tenant, document, older);
        let found = count(self.caller, self.collection, &filter).await?;
        // Also when nothing is found: a write that waits in the server's log is applied before this, and then caught.
        self.delete(filter).await?;
        Ok(u32::try_from(found).unwrap_or(u32::MAX))
    }

    /// Deletes everything of the tenant.
    pub(super) async fn delete_all(&self) -> Result<()> {
        Ok(self.delete(of_tenant(self.tenant)).await?)
    }

    async fn delete(&self, filter: qd::Filter) -> Result<(), Failed> {
        let delete = self.caller.call("delete", |client, seconds| {
            let request = qd::DeletePoints {
                collection_name: self.collection.to_owned(),
                wait: Some(true),
                points: Some(filter.clone().into()),
                ordering: self.ordering(),
                timeout: Some(seconds),
                ..Default::default()
            };
            async move { applied(client.delete_points(request).await?) }
        });
        absent(delete.await).map(Option::unwrap_or_default)
    }

    /// With copies, through one leader: else a delete and a conditional write could meet in two orders.
    fn ordering(&self) -> Option<qd::WriteOrdering> {
        self.replicated.then_some(qd::WriteOrdering {
            r#type: qd::WriteOrderingType::Medium.into(),
        })
    }
}

fn has(point: &Point, wanted: Leg) -> bool {
    let mut legs = sparse_legs(&point.vectors).into_iter();
    legs.any(|(leg, vector)| leg == wanted && !vector.is_empty())
}

/// Splits points so that no batch has more points or bytes; a single larger point is a batch of its own.
fn batches(
    points: impl Iterator<Item = qd::PointStruct>,
    most: usize,
    bytes: usize,
) -> Vec<Vec<qd::PointStruct>> {
    let mut batches = Vec::new();
    let mut batch = Vec::new();
    let mut size = 0;
    for point in points {
        let length = point.encoded_len();
        if !batch.is_empty() && (batch.len() >= most || size + length > bytes) {
            batches.push(std::mem::take(&mut batch));
            size = 0;
        }
        size += length;
        batch.push(point);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(count: usize, most: usize, bytes: usize) -> Vec<usize> {
        let point = || qd::PointStruct {
            payload: [("content".to_owned(), "x".repeat(100).into())].into(),
            ..Default::default()
        };
        let points = std::iter::repeat_with(point).take(count);
        batches(points, most, bytes).iter().map(Vec::len).collect()
    }

    #[test]
    fn batches_are_bounded_by_points_and_by_bytes() {
        assert_eq!(sizes(0, 4, 1_000), [0usize; 0]);
        assert_eq!(sizes(10, 4, 100_000), [4, 4, 2]);
        assert_eq!(sizes(5, 100, 300), [2, 2, 1]);
        assert_eq!(sizes(3, 100, 10), [1, 1, 1], "larger than the bound");
        assert_eq!(sizes(2, 0, 10), [1, 1], "nothing is lost");
    }
}
