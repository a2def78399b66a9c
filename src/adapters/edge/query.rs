//! A hybrid query to the engine's requests and its answer back. Must not know shards' life or who may ask.

use qdrant_edge as qe;
use qdrant_edge::external::ordered_float::OrderedFloat;

use super::engine::{Engine, sparse};
use super::filter::scoped;
use super::payload::decode;
use crate::error::Result;
use crate::model::TenantId;
use crate::spi::{FusionMethod, Hit, HybridQuery, LegQuery, LegVector, StoreAnswer, check_leg};

/// Answers a query; blocking.
pub(super) fn answer(
    engine: &Engine,
    tenant: &TenantId,
    query: &HybridQuery,
) -> Result<StoreAnswer> {
    for leg in &query.legs {
        check_leg(leg, engine.dimension())?;
    }
    let filter = scoped(tenant, query.filter.as_ref())?;
    let mut answer = StoreAnswer::default();
    if let Some(method) = query.fusion {
        answer.fused = fused(engine, &query.legs, method, &filter)?;
    }
    if query.rank_legs {
        let ranked = query.legs.iter().map(|leg| ranked(engine, leg, &filter));
        answer.legs = ranked.collect::<Result<_>>()?;
    }
    Ok(answer)
}

fn fused(
    engine: &Engine,
    legs: &[LegQuery],
    method: FusionMethod,
    filter: &qe::Filter,
) -> Result<Vec<Hit>> {
    let asked: Vec<&LegQuery> = legs.iter().filter(|leg| is_asked(leg)).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let fusion = match method {
        // The engine counts ranks from 0, the paper from 1.
        FusionMethod::Rrf { k } => qe::Fusion::Rrf {
            k: k as usize + 1,
            weights: None,
        },
        FusionMethod::Dbsf => qe::Fusion::Dbsf,
    };
    let prefetches = asked.iter().map(|leg| qe::Prefetch {
        prefetches: Vec::new(),
        query: Some(nearest(leg)),
        limit: leg.limit as usize,
        params: None,
        filter: Some(filter.clone()),
        score_threshold: threshold(leg),
    });
    let request = qe::QueryRequest {
        prefetches: prefetches.collect(),
        query: Some(qe::ScoringQuery::Fusion(fusion)),
        filter: Some(filter.clone()),
        score_threshold: None,
        // The sum: equal scores at the cut would be cut at random.
        limit: asked.iter().map(|leg| leg.limit as usize).sum(),
        offset: 0,
        params: None,
        with_vector: qe::WithVector::Bool(false),
        with_payload: qe::WithPayloadInterface::Bool(true),
    };
    hits(engine.read("query", |shard| shard.query(request))?)
}

fn ranked(engine: &Engine, leg: &LegQuery, filter: &qe::Filter) -> Result<Vec<Hit>> {
    if !is_asked(leg) {
        return Ok(Vec::new());
    }
    let request = qe::QueryRequest {
        prefetches: Vec::new(),
        query: Some(nearest(leg)),
        filter: Some(filter.clone()),
        score_threshold: threshold(leg),
        limit: leg.limit as usize,
        offset: 0,
        params: None,
        with_vector: qe::WithVector::Bool(false),
        with_payload: qe::WithPayloadInterface::Bool(true),
    };
    hits(engine.read("query", |shard| shard.query(request))?)
}

/// A leg that can't find anything isn't sent.
fn is_asked(leg: &LegQuery) -> bool {
    let empty = matches!(&leg.vector, LegVector::Sparse(vector) if vector.is_empty());
    leg.limit > 0 && !empty
}

fn nearest(leg: &LegQuery) -> qe::ScoringQuery {
    let query = match &leg.vector {
        LegVector::Dense(dense) => qe::VectorInternal::Dense(dense.clone()),
        LegVector::Sparse(vector) => qe::VectorInternal::Sparse(sparse(vector)),
    };
    let using = Some(leg.leg.name().to_owned());
    qe::ScoringQuery::Vector(qe::QueryEnum::Nearest(qe::NamedQuery { query, using }))
}

/// The engine's threshold is exclusive, ours inclusive: the next smaller number.
fn threshold(leg: &LegQuery) -> Option<OrderedFloat<f32>> {
    leg.min_score.map(|floor| OrderedFloat(floor.next_down()))
}

fn hits(points: Vec<qe::ScoredPoint>) -> Result<Vec<Hit>> {
    let hit = |point: qe::ScoredPoint| {
        Ok(Hit {
            score: point.score,
            stored: decode(point.id, point.payload)?,
        })
    };
    points.into_iter().map(hit).collect()
}
