//! Legs, floors, fusion and ties.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::fixture::{Desk, WIDTH, dense_leg, desks, full, put, sparse, term_leg};
use crate::fusion::rrf_share;
use crate::model::{ChunkId, Leg, SparseVector};
use crate::spi::{FusionMethod, Hit, HybridQuery, StoreAnswer, VectorStore};
use crate::tenancy::TenancyStrategy;

const TOLERANCE: f32 = 1e-4;

/// A dense vector at this cosine to the first axis.
fn at_cosine(cosine: f32) -> Vec<f32> {
    let mut vector = vec![0.0; WIDTH as usize];
    vector[0] = cosine;
    vector[1] = (1.0 - cosine * cosine).sqrt();
    vector
}

fn axis() -> Vec<f32> {
    at_cosine(1.0)
}

/// Ten points: dense best is 0, sparse best is 9, terms 1 and 10 + ordinal.
async fn ten(desk: &Desk) {
    let points = (0..10).map(|i| put(desk.id("d", i), "d", i, 1, at_cosine(1.0 - i as f32 / 10.0)));
    let weighted = points.zip(1u8..).map(|(mut point, weight)| {
        point.vectors.sparse = sparse(&[(1, f32::from(weight)), (100, 1.0)]);
        point
    });
    desk.upsert(weighted.collect()).await;
}

async fn ask(desk: &Desk, query: &HybridQuery) -> StoreAnswer {
    desk.store.query(&desk.at, query).await.expect("answered")
}

fn ordinals(hits: &[Hit]) -> Vec<u32> {
    hits.iter().map(|hit| hit.stored.chunk.ordinal).collect()
}

/// Legs come in the order asked, each with its own scores, best first, at most its limit.
pub async fn legs_rank_alone(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        ten(&desk).await;
        let legs = vec![term_leg(Leg::Sparse, &[(1, 2.0)], 3), dense_leg(axis(), 4)];
        let query = HybridQuery {
            legs,
            filter: None,
            fusion: None,
            rank_legs: true,
        };
        let answer = ask(&desk, &query).await;
        assert!(answer.fused.is_empty());
        assert_eq!(ordinals(&answer.legs[0]), [9, 8, 7]);
        assert_eq!(ordinals(&answer.legs[1]), [0, 1, 2, 3]);
        assert!((answer.legs[0][0].score - 20.0).abs() < TOLERANCE);
        assert!((answer.legs[1][3].score - 0.7).abs() < TOLERANCE);
        let query = HybridQuery {
            fusion: Some(FusionMethod::Rrf { k: 60 }),
            rank_legs: false,
            ..query
        };
        let answer = ask(&desk, &query).await;
        assert!(answer.legs.is_empty());
        assert_eq!(answer.fused.len(), 7, "as many as the limits add up to");
        // A term nobody has finds nothing.
        let legs = vec![term_leg(Leg::Sparse, &[(77, 1.0)], 5)];
        let query = HybridQuery {
            legs,
            filter: None,
            fusion: None,
            rank_legs: true,
        };
        assert!(ask(&desk, &query).await.legs[0].is_empty());
    }
}

/// A leg's floor lets its own value through, in both kinds of answer.
pub async fn a_floor_is_inclusive(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        ten(&desk).await;
        let mut dense = dense_leg(axis(), 10);
        dense.min_score = Some(0.75);
        let mut terms = term_leg(Leg::Sparse, &[(1, 1.0)], 10);
        terms.min_score = Some(8.0);
        let answer = ask(
            &desk,
            &full(vec![dense, terms], FusionMethod::Rrf { k: 60 }),
        )
        .await;
        assert_eq!(ordinals(&answer.legs[0]), [0, 1, 2]);
        assert_eq!(ordinals(&answer.legs[1]), [9, 8, 7], "8.0 itself is in");
        assert_eq!(answer.fused.len(), 6);
    }
}

/// Fused scores are the paper's, computed from the legs' own rankings.
pub async fn fusion_follows_the_paper(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        ten(&desk).await;
        for k in [1, 60, 1000] {
            let legs = vec![dense_leg(axis(), 6), term_leg(Leg::Sparse, &[(1, 1.0)], 8)];
            let answer = ask(&desk, &full(legs, FusionMethod::Rrf { k })).await;
            let mut expected: HashMap<ChunkId, f32> = HashMap::new();
            for leg in &answer.legs {
                for (rank, hit) in (1..).zip(leg) {
                    *expected.entry(hit.stored.id).or_default() += rrf_share(1.0, k, rank);
                }
            }
            assert_fused(&answer.fused, &expected);
        }
        let single = vec![dense_leg(axis(), 3)];
        let answer = ask(&desk, &full(single, FusionMethod::Rrf { k: 60 })).await;
        assert_eq!(ordinals(&answer.fused), [0, 1, 2]);
    }
}

fn assert_fused(fused: &[Hit], expected: &HashMap<ChunkId, f32>) {
    assert_eq!(fused.len(), expected.len());
    assert!(
        fused.is_sorted_by(|a, b| a.score >= b.score - 1e-6),
        "best first"
    );
    for hit in fused {
        let wanted = expected[&hit.stored.id];
        assert!(
            (hit.score - wanted).abs() < 1e-6,
            "{} for {wanted}",
            hit.score
        );
    }
}

/// DBSF: best where both legs agree, and every found chunk once.
pub async fn dbsf_fuses(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let points = (0..6).map(|i| {
            let mut point = put(desk.id("d", i), "d", i, 1, at_cosine(1.0 - i as f32 / 10.0));
            point.vectors.sparse = sparse(&[(1, 6.0 - i as f32)]);
            point
        });
        desk.upsert(points.collect()).await;
        let legs = vec![dense_leg(axis(), 6), term_leg(Leg::Sparse, &[(1, 1.0)], 6)];
        let answer = ask(&desk, &full(legs, FusionMethod::Dbsf)).await;
        assert_eq!(ordinals(&answer.fused), [0, 1, 2, 3, 4, 5]);
        // Evenly spaced scores: the best lies 2.5 of 0.1 above the mean, σ = √3.5 of 0.1, in both legs.
        let best = 2.0 * (2.5 + 3.0 * 3.5f32.sqrt()) / (6.0 * 3.5f32.sqrt());
        assert!(
            (answer.fused[0].score - best).abs() < 1e-3,
            "{}",
            answer.fused[0].score
        );
    }
}

/// Equal scores are never cut: the fused list is the same set every time.
pub async fn ties_are_not_cut(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        // Two legs without a common chunk: every fused score stands twice.
        let points = (0..20).map(|i| {
            let near = at_cosine(if i < 10 { 0.9 - i as f32 / 50.0 } else { -0.5 });
            let mut point = put(desk.id("d", i), "d", i, 1, near);
            point.vectors.sparse = match i {
                0..10 => SparseVector::default(),
                _ => sparse(&[(1, 1.0 + i as f32)]),
            };
            point
        });
        desk.upsert(points.collect()).await;
        let legs = vec![
            dense_leg(axis(), 10),
            term_leg(Leg::Sparse, &[(1, 1.0)], 10),
        ];
        let query = full(legs, FusionMethod::Rrf { k: 60 });
        for _ in 0..10 {
            let answer = ask(&desk, &query).await;
            let by_id: BTreeMap<_, _> = answer
                .fused
                .iter()
                .map(|hit| (hit.stored.chunk.ordinal, hit.score))
                .collect();
            assert_eq!(by_id.len(), 20, "every chunk once");
            assert!((by_id[&0] - by_id[&19]).abs() < 1e-7, "a tie");
        }
    }
}

/// The lexical leg weighs rare terms more. Only where a collection belongs to one tenant.
pub async fn bm25_weighs_rare_terms(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        if desk.strategy == TenancyStrategy::Shared {
            continue;
        }
        let points = (0..10).map(|i| {
            let mut point = put(desk.id("d", i), "d", i, 1, axis());
            point.vectors.bm25 = if i == 3 {
                sparse(&[(6, 1.0)])
            } else {
                sparse(&[(5, 1.0)])
            };
            point
        });
        desk.upsert(points.collect()).await;
        let legs = vec![term_leg(Leg::Bm25, &[(5, 1.0), (6, 1.0)], 10)];
        let query = HybridQuery {
            legs,
            filter: None,
            fusion: None,
            rank_legs: true,
        };
        let answer = ask(&desk, &query).await;
        assert_eq!(answer.legs[0].len(), 10);
        assert_eq!(answer.legs[0][0].stored.chunk.ordinal, 3);
        let idf = |with: f32| ((10.0 - with + 0.5) / (with + 0.5) + 1.0f32).ln();
        assert!((answer.legs[0][0].score - idf(1.0)).abs() < TOLERANCE);
        assert!((answer.legs[0][1].score - idf(9.0)).abs() < TOLERANCE);
    }
}
