//! Upserts by sequence, deletes, and what is read back.

use std::sync::Arc;

use super::fixture::{desks, document_id, metadata, sparse};
use crate::error::ErrorKind;
use crate::model::{MetadataValue, Span, SparseVector, Timestamp};
use crate::spi::{Point, VectorStore};

/// A point comes back with everything it had; its dense vector may be scaled to length 1.
pub async fn points_come_back_whole(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let mut point = desk.point("ä/ö \"quoted\".txt", 3, 1 << 40);
        point.stored.chunk.span = Some(Span {
            start: 7,
            end: u32::MAX,
        });
        point.stored.chunk.content = "line\nzwei \u{1F600}".into();
        point.expires_at = Some(Timestamp::from_micros(1_700_000_000_000_001));
        point.vectors.bm25 = sparse(&[(2, 0.25), (u32::MAX, 3.0)]);
        point.stored.chunk.metadata = metadata(vec![
            ("tenant", MetadataValue::String("not-a-tenant".into())),
            ("exact", MetadataValue::Number(0.123_456_789_012_345_68)),
            ("tiny", MetadataValue::Number(5e-324)),
            ("minus", MetadataValue::Number(-9_007_199_254_740_992.0)),
            ("whole", MetadataValue::Number(2020.0)),
            ("flag", MetadataValue::Bool(false)),
            ("none", MetadataValue::Strings(vec![])),
            (
                "tags",
                MetadataValue::Strings(vec!["b".into(), "a".into(), "b".into()]),
            ),
            ("ns", MetadataValue::Numbers(vec![3.0, 0.1 + 0.2])),
            ("A-b_c", MetadataValue::String(String::new())),
        ]);
        desk.upsert(vec![point.clone(), desk.point("other", 0, 1)])
            .await;
        let unknown = desk.id("unknown", 0);
        let mut read = store
            .points(&desk.at, &[unknown, point.stored.id])
            .await
            .expect("read");
        assert_eq!(read.len(), 1, "missing ids are left out");
        let read = read.remove(0);
        assert_same_direction(&read.vectors.dense, &point.vectors.dense);
        assert_eq!(read.vectors.sparse, point.vectors.sparse);
        assert_eq!(read.vectors.bm25, point.vectors.bm25);
        assert_eq!(read.expires_at, point.expires_at);
        assert_eq!(read.stored, point.stored);
    }
}

fn assert_same_direction(a: &[f32], b: &[f32]) {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    assert!((cosine - 1.0).abs() < 1e-5, "cosine {cosine}");
}

/// Older points change nothing, equal ones replace, also when a batch mixes them.
pub async fn stale_points_are_left_alone(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        desk.upsert(vec![
            desk.point("d", 0, 5),
            desk.point("d", 1, 5),
            desk.point("d", 2, 7),
        ])
        .await;
        // 0 is newer, 1 is equal, 2 is stale, 3 is new.
        let mut batch: Vec<Point> = vec![desk.point("d", 0, 6), desk.point("d", 1, 5)];
        batch.extend([desk.point("d", 2, 6), desk.point("d", 3, 6)]);
        batch[1].stored.chunk.content = "replaced".into();
        desk.upsert(batch).await;
        let ids: Vec<_> = (0..4).map(|i| desk.id("d", i)).collect();
        let mut read = store.points(&desk.at, &ids).await.expect("read");
        read.sort_by_key(|point| point.stored.chunk.ordinal);
        let sequences: Vec<u64> = read.iter().map(|point| point.stored.sequence).collect();
        assert_eq!(sequences, [6, 5, 7, 6]);
        assert_eq!(read[1].stored.chunk.content, "replaced");
        assert!(read[2].stored.chunk.content.ends_with("at 7"));
        assert_eq!(desk.count().await, 4);
        desk.upsert(vec![]).await;
    }
}

/// A replaced point keeps nothing of the old one, no vector either.
pub async fn vectors_are_replaced_whole(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let mut point = desk.point("d", 0, 1);
        point.vectors.bm25 = sparse(&[(4, 1.0)]);
        point.stored.chunk.metadata = metadata(vec![("old", MetadataValue::Bool(true))]);
        desk.upsert(vec![point]).await;
        let mut next = desk.point("d", 0, 2);
        next.vectors.sparse = SparseVector::default();
        desk.upsert(vec![next.clone()]).await;
        let read = store
            .points(&desk.at, &[next.stored.id])
            .await
            .expect("read")
            .remove(0);
        assert!(read.vectors.sparse.is_empty() && read.vectors.bm25.is_empty());
        assert_eq!(read.stored, next.stored);
    }
}

/// Unusable vectors are `Internal`, and nothing of their batch is written.
pub async fn unusable_vectors_write_nothing(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let spoilt: Vec<fn(&mut Point)> = vec![
            |p| p.vectors.dense.truncate(3),
            |p| p.vectors.dense.push(0.0),
            |p| p.vectors.dense[1] = f32::NAN,
            |p| p.vectors.sparse.values[0] = f32::INFINITY,
            |p| p.vectors.sparse.values[0] = -1.0,
            |p| p.vectors.sparse.values[0] = 0.0,
            |p| p.vectors.sparse.indices.reverse(),
            |p| p.vectors.sparse.indices[1] = p.vectors.sparse.indices[0],
            |p| p.vectors.bm25.indices.push(1),
        ];
        for spoil in spoilt {
            let mut bad = desk.point("d", 1, 1);
            spoil(&mut bad);
            let batch = vec![desk.point("d", 0, 1), bad, desk.point("d", 2, 1)];
            let error = store.upsert(&desk.at, batch).await.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Internal);
        }
        assert_eq!(desk.count().await, 0);
    }
}

/// Deletes take a document's points below a sequence, and say how many.
pub async fn deletes_go_by_sequence(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let mut points: Vec<Point> = (0..3).map(|i| desk.point("d", i, 5)).collect();
        points.extend((3..5).map(|i| desk.point("d", i, 6)));
        points.extend((0..2).map(|i| desk.point("e", i, 1)));
        desk.upsert(points).await;
        let delete = async |below| {
            let document = document_id("d");
            store
                .delete_below(&desk.at, &document, below)
                .await
                .expect("deleted")
        };
        assert_eq!(delete(5).await, 0);
        assert_eq!(delete(6).await, 3);
        assert_eq!(desk.count().await, 4);
        assert_eq!(delete(6).await, 0);
        assert_eq!(delete(u64::MAX).await, 2);
        assert_eq!(desk.count().await, 2, "other documents stay");
    }
}

/// A document's chunks: of exactly this sequence, by ordinal.
pub async fn documents_are_read_back(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let mut points: Vec<Point> = (0..12).rev().map(|i| desk.point("d", i, 5)).collect();
        points.extend([
            desk.point("d", 12, 4),
            desk.point("d", 13, 6),
            desk.point("d2", 0, 5),
        ]);
        desk.upsert(points.clone()).await;
        let read = store
            .document_chunks(&desk.at, &document_id("d"), 5)
            .await
            .expect("read");
        let mut expected: Vec<_> = points[..12]
            .iter()
            .map(|point| point.stored.clone())
            .collect();
        expected.reverse();
        assert_eq!(read, expected);
        assert_eq!(
            store
                .document_chunks(&desk.at, &document_id("x"), 5)
                .await
                .expect("read"),
            vec![]
        );
    }
}
