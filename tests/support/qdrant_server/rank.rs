//! How the test server scores and fuses: exactly, with a server's conventions. Must not know where points are stored.

use std::collections::HashMap;

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::query::Variant;
use qdrant_client::qdrant::vector::Vector;
use tonic::Status;

use super::engine::{Collection, UNNAMED, point_id};

type Ranking = Vec<(u128, f32)>;

/// The server's own k.
const DEFAULT_K: u32 = 2;
const DEFAULT_LIMIT: u64 = 10;

/// Answers a query.
pub fn answer(
    collection: &Collection,
    query: &qd::QueryPoints,
) -> Result<Vec<qd::ScoredPoint>, Status> {
    let wanted = query
        .query
        .as_ref()
        .and_then(|query| query.variant.as_ref());
    let wanted = wanted.ok_or_else(|| Status::unimplemented("a query without a vector"))?;
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT) as usize;
    let mut ranking = if query.prefetch.is_empty() {
        let own = qd::PrefetchQuery {
            query: query.query.clone(),
            using: query.using.clone(),
            params: query.params.clone(),
            score_threshold: query.score_threshold,
            limit: Some(query.limit.unwrap_or(DEFAULT_LIMIT)),
            ..Default::default()
        };
        leg(collection, &own, query.filter.as_ref())?
    } else {
        let legs = query.prefetch.iter();
        let legs = legs.map(|prefetch| leg(collection, prefetch, query.filter.as_ref()));
        fuse(&legs.collect::<Result<Vec<_>, _>>()?, wanted)?
    };
    ranking.truncate(limit);
    let hit = |(id, score): (u128, f32)| {
        let payload = collection
            .points
            .get(&id)
            .map(|point| point.payload.clone());
        qd::ScoredPoint {
            id: Some(point_id(id)),
            payload: payload.unwrap_or_default(),
            score,
            ..Default::default()
        }
    };
    Ok(ranking.into_iter().map(hit).collect())
}

/// One leg; the root's filter holds too.
fn leg(
    collection: &Collection,
    leg: &qd::PrefetchQuery,
    root: Option<&qd::Filter>,
) -> Result<Ranking, Status> {
    if !leg.prefetch.is_empty() {
        return Err(Status::unimplemented("nested prefetches"));
    }
    let name = leg.using.as_deref().unwrap_or(UNNAMED);
    let query = nearest(leg.query.as_ref())?;
    collection.check_vector(name, &query)?;
    let allowed = collection.found(root)?;
    let also = collection.found(leg.filter.as_ref())?;
    let rarity = rarity(collection, name, leg.params.as_ref())?;
    let query = match query {
        Vector::Dense(dense) => Vector::Dense(qd::DenseVector {
            data: normalised(dense.data),
        }),
        query => query,
    };
    let scored = allowed
        .into_iter()
        .filter(|id| also.contains(id))
        .filter_map(|id| {
            let stored = collection.points.get(&id)?.vectors.get(name)?;
            Some((id, score(&query, stored, rarity.as_ref())?))
        });
    let above = |score: f32| leg.score_threshold.is_none_or(|floor| score > floor);
    let mut ranking: Ranking = scored.filter(|(_, score)| above(*score)).collect();
    sort(&mut ranking);
    ranking.truncate(leg.limit.unwrap_or(DEFAULT_LIMIT) as usize);
    Ok(ranking)
}

fn nearest(query: Option<&qd::Query>) -> Result<Vector, Status> {
    let unknown = || Status::unimplemented("only nearest vectors");
    let Some(Variant::Nearest(input)) = query.and_then(|query| query.variant.as_ref()) else {
        return Err(unknown());
    };
    match input.variant.as_ref() {
        Some(qd::vector_input::Variant::Dense(dense)) => Ok(Vector::Dense(dense.clone())),
        Some(qd::vector_input::Variant::Sparse(sparse)) => Ok(Vector::Sparse(sparse.clone())),
        _ => Err(unknown()),
    }
}

/// How rare a term is among the points of a corpus; of all tenants when none is given.
struct Rarity {
    count: f32,
    with: HashMap<u32, f32>,
}

fn rarity(
    collection: &Collection,
    name: &str,
    params: Option<&qd::SearchParams>,
) -> Result<Option<Rarity>, Status> {
    if collection.modifier(name) != Some(qd::Modifier::Idf) {
        return Ok(None);
    }
    let idf = params.and_then(|params| params.idf.as_ref());
    let corpus = collection.found(idf.and_then(|idf| idf.corpus.as_ref()))?;
    let mut rarity = Rarity {
        count: 0.0,
        with: HashMap::new(),
    };
    for id in corpus {
        let Some(Vector::Sparse(vector)) = collection.points[&id].vectors.get(name) else {
            continue;
        };
        rarity.count += 1.0;
        for index in &vector.indices {
            *rarity.with.entry(*index).or_default() += 1.0;
        }
    }
    Ok(Some(rarity))
}

impl Rarity {
    fn of(&self, index: u32) -> f32 {
        let with = self.with.get(&index).copied().unwrap_or(0.0);
        ((self.count - with + 0.5) / (with + 0.5) + 1.0).ln()
    }
}

fn score(query: &Vector, stored: &Vector, rarity: Option<&Rarity>) -> Option<f32> {
    match (query, stored) {
        (Vector::Dense(query), Vector::Dense(stored)) => {
            let products = query.data.iter().zip(&stored.data).map(|(x, y)| x * y);
            Some(products.sum())
        }
        (Vector::Sparse(query), Vector::Sparse(stored)) => {
            let shares = query
                .indices
                .iter()
                .zip(&query.values)
                .filter_map(|(index, weight)| {
                    let at = stored.indices.iter().position(|other| other == index)?;
                    let rare = rarity.map_or(1.0, |rarity| rarity.of(*index));
                    Some(weight * stored.values[at] * rare)
                });
            shares.reduce(|sum, share| sum + share)
        }
        _ => None,
    }
}

/// A vector scaled to length 1, as cosine collections store it.
pub fn normalised(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    vector
}

fn sort(ranking: &mut Ranking) {
    ranking.sort_by(|a, b| b.1.total_cmp(&a.1));
}

/// Out of a hash map: equal scores stand in any order.
fn fuse(legs: &[Ranking], wanted: &Variant) -> Result<Ranking, Status> {
    let mut sums: HashMap<u128, f32> = HashMap::new();
    match wanted {
        Variant::Rrf(rrf) => {
            if !rrf.weights.is_empty() && rrf.weights.len() != legs.len() {
                return Err(Status::invalid_argument(
                    "weights and prefetches differ in number",
                ));
            }
            for (at, leg) in legs.iter().enumerate() {
                let weight = rrf.weights.get(at).copied().unwrap_or(1.0);
                reciprocal(leg, rrf.k.unwrap_or(DEFAULT_K), weight, &mut sums);
            }
        }
        Variant::Fusion(method) if *method == i32::from(qd::Fusion::Dbsf) => {
            legs.iter().for_each(|leg| distribution(leg, &mut sums));
        }
        Variant::Fusion(_) => {
            let each = |leg| reciprocal(leg, DEFAULT_K, 1.0, &mut sums);
            legs.iter().for_each(each);
        }
        _ => return Err(Status::unimplemented("prefetches are fused only")),
    }
    let mut fused: Ranking = sums.into_iter().collect();
    sort(&mut fused);
    Ok(fused)
}

/// Ranks from 0; a weight divides the rank and doesn't scale the share.
fn reciprocal(leg: &Ranking, k: u32, weight: f32, sums: &mut HashMap<u128, f32>) {
    for (rank, (id, _)) in leg.iter().enumerate() {
        let share = 1.0 / ((rank as f32 + 1.0) / weight + k as f32 - 1.0);
        *sums.entry(*id).or_default() += share;
    }
}

/// A score's place within three standard deviations around the mean; the middle where there is no deviation.
fn distribution(leg: &Ranking, sums: &mut HashMap<u128, f32>) {
    let count = leg.len() as f32;
    let mean = leg.iter().map(|(_, score)| score).sum::<f32>() / count;
    let variance = leg.iter().map(|(_, score)| (score - mean) * (score - mean));
    let reach = 3.0 * (variance.sum::<f32>() / (count - 1.0)).sqrt();
    for (id, score) in leg {
        let place = (score - (mean - reach)) / (2.0 * reach);
        let place = if place.is_finite() { place } else { 0.5 };
        *sums.entry(*id).or_default() += place;
    }
}
