//! A hybrid query to the server's requests and its answer back: one call, whatever is asked. Must not know marks.

use qdrant_client::qdrant as qd;

use super::call::{Caller, Failed};
use super::config::{QdrantConfig, Quantization};
use super::filter::{of_tenant, scoped};
use super::payload::decode;
use crate::error::{Error, Result};
use crate::model::{Leg, TenantId};
use crate::spi::{FusionMethod, Hit, HybridQuery, LegQuery, LegVector, StoreAnswer};

/// How much wider a quantized search looks before the whole vectors decide.
const OVERSAMPLING: f64 = 2.0;

/// What a query is compiled against.
pub(super) struct Scope<'a> {
    pub(super) collection: &'a str,
    pub(super) tenant: &'a TenantId,
    /// Whether other tenants' points stand in the same collection.
    pub(super) shared: bool,
    pub(super) config: &'a QdrantConfig,
}

/// The requests of a query, in the order of its answer: fused first, then each leg that is asked.
pub(super) fn requests(scope: &Scope<'_>, query: &HybridQuery) -> Result<Vec<qd::QueryPoints>> {
    let filter = scoped(scope.tenant, query.filter.as_ref())?;
    let asked: Vec<&LegQuery> = query.legs.iter().filter(|leg| is_asked(leg)).collect();
    let mut requests = Vec::new();
    if asked.is_empty() {
        return Ok(requests);
    }
    if let Some(method) = query.fusion {
        requests.push(fused(scope, &asked, method, &filter));
    }
    if query.rank_legs {
        requests.extend(asked.iter().map(|leg| ranked(scope, leg, &filter)));
    }
    Ok(requests)
}

/// Asks all of it in one call.
pub(super) async fn send(
    caller: &Caller,
    collection: &str,
    mut requests: Vec<qd::QueryPoints>,
) -> Result<Vec<Vec<qd::ScoredPoint>>, Failed> {
    if requests.len() > 1 {
        let sent = caller.call("query_batch", |client, seconds| {
            let request = qd::QueryBatchPoints {
                collection_name: collection.to_owned(),
                query_points: requests.clone(),
                timeout: Some(seconds),
                ..Default::default()
            };
            async move { Ok(client.query_batch(request).await?) }
        });
        let results = sent.await?.result.into_iter();
        return Ok(results.map(|batch| batch.result).collect());
    }
    let Some(request) = requests.pop() else {
        return Ok(Vec::new());
    };
    let sent = caller.call("query", |client, seconds| {
        let mut request = request.clone();
        request.timeout = Some(seconds);
        async move { Ok(client.query(request).await?) }
    });
    Ok(vec![sent.await?.result])
}

/// The answer out of the results of [`requests`].
pub(super) fn answer(
    query: &HybridQuery,
    results: Vec<Vec<qd::ScoredPoint>>,
) -> Result<StoreAnswer> {
    let mut results = results.into_iter();
    let mut next = || {
        let lost = || Error::internal("the vector store left a part of a query unanswered");
        hits(results.next().ok_or_else(lost)?)
    };
    let mut answer = StoreAnswer::default();
    if query.fusion.is_some() && query.legs.iter().any(is_asked) {
        answer.fused = next()?;
    }
    if query.rank_legs {
        for leg in &query.legs {
            let ranking = if is_asked(leg) { next()? } else { Vec::new() };
            answer.legs.push(ranking);
        }
    }
    Ok(answer)
}

fn fused(
    scope: &Scope<'_>,
    legs: &[&LegQuery],
    method: FusionMethod,
    filter: &qd::Filter,
) -> qd::QueryPoints {
    let fusion = match method {
        // The server counts ranks from 0, the paper from 1.
        FusionMethod::Rrf { k } => qd::query::Variant::Rrf(qd::Rrf {
            k: Some(k.saturating_add(1)),
            weights: Vec::new(),
        }),
        FusionMethod::Dbsf => qd::query::Variant::Fusion(qd::Fusion::Dbsf.into()),
    };
    let prefetch = legs.iter().map(|leg| qd::PrefetchQuery {
        query: Some(nearest(leg)),
        using: Some(leg.leg.name().to_owned()),
        filter: Some(filter.clone()),
        params: params(scope, leg.leg),
        score_threshold: threshold(leg),
        limit: Some(leg.limit.into()),
        ..Default::default()
    });
    let fusion = qd::Query {
        variant: Some(fusion),
    };
    // The sum: equal scores at the cut would be cut at random.
    let limit = legs.iter().map(|leg| u64::from(leg.limit)).sum();
    qd::QueryPoints {
        prefetch: prefetch.collect(),
        ..request(scope, fusion, filter, limit)
    }
}

fn ranked(scope: &Scope<'_>, leg: &LegQuery, filter: &qd::Filter) -> qd::QueryPoints {
    qd::QueryPoints {
        using: Some(leg.leg.name().to_owned()),
        params: params(scope, leg.leg),
        score_threshold: threshold(leg),
        ..request(scope, nearest(leg), filter, leg.limit.into())
    }
}

fn request(
    scope: &Scope<'_>,
    query: qd::Query,
    filter: &qd::Filter,
    limit: u64,
) -> qd::QueryPoints {
    qd::QueryPoints {
        collection_name: scope.collection.to_owned(),
        query: Some(query),
        filter: Some(filter.clone()),
        limit: Some(limit),
        with_payload: Some(true.into()),
        with_vectors: Some(false.into()),
        ..Default::default()
    }
}

/// A leg that can't find anything isn't sent.
fn is_asked(leg: &LegQuery) -> bool {
    let empty = matches!(&leg.vector, LegVector::Sparse(vector) if vector.is_empty());
    leg.limit > 0 && !empty
}

/// Whether a query asks for word statistics of a collection that tenants share.
pub(super) fn needs_own_statistics(query: &HybridQuery, shared: bool) -> bool {
    shared && query.legs.iter().any(|leg| leg.leg == Leg::Bm25)
}

fn nearest(leg: &LegQuery) -> qd::Query {
    let vector = match &leg.vector {
        LegVector::Dense(dense) => qd::VectorInput::new_dense(dense.clone()),
        LegVector::Sparse(vector) => {
            qd::VectorInput::new_sparse(vector.indices.clone(), vector.values.clone())
        }
    };
    qd::Query::new_nearest(vector)
}

fn params(scope: &Scope<'_>, leg: Leg) -> Option<qd::SearchParams> {
    let mut params = qd::SearchParams::default();
    match leg {
        Leg::Dense => {
            params.hnsw_ef = scope.config.hnsw.ef_search.map(u64::from);
            if scope.config.quantization != Quantization::None {
                params.quantization = Some(qd::QuantizationSearchParams {
                    rescore: Some(true),
                    oversampling: Some(OVERSAMPLING),
                    ..Default::default()
                });
            }
        }
        Leg::Bm25 if scope.shared => {
            // Else the statistics would be of all tenants: worse, and a way to learn of others' words.
            let corpus = Some(of_tenant(scope.tenant));
            params.idf = Some(qd::IdfParams { corpus });
        }
        Leg::Sparse | Leg::Bm25 => {}
    }
    (params != qd::SearchParams::default()).then_some(params)
}

/// The server's threshold is exclusive, ours inclusive: the next smaller number.
fn threshold(leg: &LegQuery) -> Option<f32> {
    leg.min_score.map(f32::next_down)
}

fn hits(points: Vec<qd::ScoredPoint>) -> Result<Vec<Hit>> {
    let hit = |point: qd::ScoredPoint| {
        Ok(Hit {
            score: point.score,
            stored: decode(point.id, point.payload)?,
        })
    };
    points.into_iter().map(hit).collect()
}
