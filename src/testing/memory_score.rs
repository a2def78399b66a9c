//! How the memory store scores and fuses: exact, and as Qdrant does it. Must not know the store.

use std::collections::BTreeMap;

use crate::fusion::{rrf, sort_ranked};
use crate::model::{ChunkId, Leg, SparseVector};
use crate::spi::{FusionMethod, LegQuery, LegVector, Point};

/// Scales to length 1, as cosine collections store it.
pub(super) fn normalise(vector: &mut [f32]) {
    let length = dot(vector, vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// The leg's score of a point; `None` when a sparse leg shares no term with it.
pub(super) fn score(leg: &LegQuery, point: &Point, all: &[&Point]) -> Option<f32> {
    match &leg.vector {
        LegVector::Dense(query) => {
            let mut query = query.clone();
            normalise(&mut query);
            Some(dot(&query, &point.vectors.dense))
        }
        LegVector::Sparse(query) => {
            let stored = of_leg(leg.leg, point);
            let shared = query
                .indices
                .iter()
                .zip(&query.values)
                .filter_map(|(index, weight)| {
                    let at = stored.indices.binary_search(index).ok()?;
                    let idf = if leg.leg == Leg::Bm25 {
                        idf(*index, all)
                    } else {
                        1.0
                    };
                    Some(weight * stored.values[at] * idf)
                });
            shared.reduce(|sum, share| sum + share)
        }
    }
}

fn of_leg(leg: Leg, point: &Point) -> &SparseVector {
    if leg == Leg::Bm25 {
        &point.vectors.bm25
    } else {
        &point.vectors.sparse
    }
}

fn idf(index: u32, all: &[&Point]) -> f32 {
    let stored = |point: &&&Point| !point.vectors.bm25.is_empty();
    let has = |point: &&&Point| point.vectors.bm25.indices.binary_search(&index).is_ok();
    let count = all.iter().filter(stored).count() as f32;
    let with = all.iter().filter(has).count() as f32;
    ((count - with + 0.5) / (with + 0.5) + 1.0).ln()
}

/// Fuses ranked legs.
pub(super) fn fuse(legs: &[Vec<(ChunkId, f32)>], method: FusionMethod) -> Vec<(ChunkId, f32)> {
    match method {
        FusionMethod::Rrf { k } => {
            let ids = |leg: &Vec<(ChunkId, f32)>| (1.0, leg.iter().map(|(id, _)| *id).collect());
            rrf(&legs.iter().map(ids).collect::<Vec<_>>(), k)
        }
        FusionMethod::Dbsf => {
            let mut sums: BTreeMap<ChunkId, f32> = BTreeMap::new();
            for (id, score) in legs.iter().flat_map(|leg| normalised(leg)) {
                *sums.entry(id).or_default() += score;
            }
            let mut fused: Vec<_> = sums.into_iter().collect();
            sort_ranked(&mut fused);
            fused
        }
    }
}

/// Scores relative to three standard deviations around the mean; 0.5 where there is no deviation.
fn normalised(leg: &[(ChunkId, f32)]) -> Vec<(ChunkId, f32)> {
    let count = leg.len() as f32;
    let mean = leg.iter().map(|(_, score)| score).sum::<f32>() / count;
    let squares: f32 = leg.iter().map(|(_, score)| (score - mean).powi(2)).sum();
    let reach = 3.0 * (squares / (count - 1.0)).sqrt();
    let place = |score: f32| {
        let flat = leg.len() < 2 || reach == 0.0;
        if flat {
            0.5
        } else {
            (score - mean + reach) / (2.0 * reach)
        }
    };
    leg.iter().map(|(id, score)| (*id, place(*score))).collect()
}
