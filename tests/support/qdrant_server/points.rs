//! The points service. Must not know faults beyond their effect on a write.

use std::collections::HashMap;

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::points_server::Points;
use qdrant_client::qdrant::vector::Vector;
use qdrant_client::qdrant::vectors_output::VectorsOptions;
use tonic::Status;

use super::engine::{Engine, Stored, UNNAMED, Write, key, point_id, response};
use super::faults::Effect;
use super::{QdrantServer, methods, rank};

const DEFAULT_PAGE: u32 = 10;

impl Points for QdrantServer {
    methods! { "points"
        upsert(qd::UpsertPoints) -> qd::PointsOperationResponse = upsert;
        delete(qd::DeletePoints) -> qd::PointsOperationResponse = delete;
        get(qd::GetPoints) -> qd::GetResponse = get;
        update_vectors(qd::UpdatePointVectors) -> qd::PointsOperationResponse;
        delete_vectors(qd::DeletePointVectors) -> qd::PointsOperationResponse = delete_vectors;
        set_payload(qd::SetPayloadPoints) -> qd::PointsOperationResponse;
        overwrite_payload(qd::SetPayloadPoints) -> qd::PointsOperationResponse;
        delete_payload(qd::DeletePayloadPoints) -> qd::PointsOperationResponse;
        clear_payload(qd::ClearPayloadPoints) -> qd::PointsOperationResponse;
        create_field_index(qd::CreateFieldIndexCollection) -> qd::PointsOperationResponse = create_field_index;
        delete_field_index(qd::DeleteFieldIndexCollection) -> qd::PointsOperationResponse;
        create_vector_name(qd::CreateVectorNameRequest) -> qd::PointsOperationResponse;
        delete_vector_name(qd::DeleteVectorNameRequest) -> qd::PointsOperationResponse;
        search(qd::SearchPoints) -> qd::SearchResponse;
        search_batch(qd::SearchBatchPoints) -> qd::SearchBatchResponse;
        search_groups(qd::SearchPointGroups) -> qd::SearchGroupsResponse;
        scroll(qd::ScrollPoints) -> qd::ScrollResponse = scroll;
        recommend(qd::RecommendPoints) -> qd::RecommendResponse;
        recommend_batch(qd::RecommendBatchPoints) -> qd::RecommendBatchResponse;
        recommend_groups(qd::RecommendPointGroups) -> qd::RecommendGroupsResponse;
        discover(qd::DiscoverPoints) -> qd::DiscoverResponse;
        discover_batch(qd::DiscoverBatchPoints) -> qd::DiscoverBatchResponse;
        count(qd::CountPoints) -> qd::CountResponse = count;
        update_batch(qd::UpdateBatchPoints) -> qd::UpdateBatchResponse;
        query(qd::QueryPoints) -> qd::QueryResponse = query;
        query_batch(qd::QueryBatchPoints) -> qd::QueryBatchResponse = query_batch;
        query_groups(qd::QueryPointGroups) -> qd::QueryGroupsResponse;
        facet(qd::FacetCounts) -> qd::FacetResponse;
        search_matrix_pairs(qd::SearchMatrixPoints) -> qd::SearchMatrixPairsResponse;
        search_matrix_offsets(qd::SearchMatrixPoints) -> qd::SearchMatrixOffsetsResponse;
    }
}

type Written = Result<qd::PointsOperationResponse, Status>;

fn upsert(engine: &mut Engine, request: qd::UpsertPoints, effect: Effect) -> Written {
    engine.upserts.push(request.points.len());
    let name = request.collection_name.clone();
    engine.write(&name, Write::Upsert(request), effect)
}

fn delete(engine: &mut Engine, request: qd::DeletePoints, effect: Effect) -> Written {
    engine.write(
        &request.collection_name,
        Write::Delete(request.points),
        effect,
    )
}

fn delete_vectors(engine: &mut Engine, request: qd::DeletePointVectors, effect: Effect) -> Written {
    let names = request.vectors.map(|vectors| vectors.names);
    let strip = Write::Strip(request.points_selector, names.unwrap_or_default());
    engine.write(&request.collection_name, strip, effect)
}

fn create_field_index(
    engine: &mut Engine,
    request: qd::CreateFieldIndexCollection,
    _: Effect,
) -> Written {
    let collection = engine.get(&request.collection_name)?;
    if !collection.indexes.contains(&request.field_name) {
        collection.indexes.push(request.field_name);
    }
    Ok(response(qd::UpdateStatus::Completed))
}

fn get(engine: &mut Engine, request: qd::GetPoints, _: Effect) -> Result<qd::GetResponse, Status> {
    let collection = engine.get(&request.collection_name)?;
    let mut result = Vec::new();
    for id in &request.ids {
        let id = key(Some(id))?;
        if let Some(point) = collection.points.get(&id) {
            result.push(retrieved(id, point));
        }
    }
    Ok(qd::GetResponse {
        result,
        ..Default::default()
    })
}

fn scroll(
    engine: &mut Engine,
    request: qd::ScrollPoints,
    _: Effect,
) -> Result<qd::ScrollResponse, Status> {
    let collection = engine.get(&request.collection_name)?;
    let from = match &request.offset {
        Some(id) => key(Some(id))?,
        None => 0,
    };
    let mut found = collection.found(request.filter.as_ref())?;
    found.retain(|id| *id >= from);
    let limit = request.limit.unwrap_or(DEFAULT_PAGE) as usize;
    let page = found.iter().take(limit);
    Ok(qd::ScrollResponse {
        next_page_offset: found.get(limit).map(|id| point_id(*id)),
        result: page
            .map(|id| retrieved(*id, &collection.points[id]))
            .collect(),
        ..Default::default()
    })
}

fn count(
    engine: &mut Engine,
    request: qd::CountPoints,
    _: Effect,
) -> Result<qd::CountResponse, Status> {
    let collection = engine.get(&request.collection_name)?;
    let count = collection.found(request.filter.as_ref())?.len() as u64;
    Ok(qd::CountResponse {
        result: Some(qd::CountResult { count }),
        ..Default::default()
    })
}

fn query(
    engine: &mut Engine,
    request: qd::QueryPoints,
    _: Effect,
) -> Result<qd::QueryResponse, Status> {
    let result = rank::answer(engine.get(&request.collection_name)?, &request)?;
    engine.queries.push(request);
    Ok(qd::QueryResponse {
        result,
        ..Default::default()
    })
}

fn query_batch(
    engine: &mut Engine,
    request: qd::QueryBatchPoints,
    _: Effect,
) -> Result<qd::QueryBatchResponse, Status> {
    let mut batch = Vec::new();
    for one in request.query_points {
        let answer = query(engine, one, Effect::Whole)?;
        batch.push(qd::BatchResult {
            result: answer.result,
        });
    }
    Ok(qd::QueryBatchResponse {
        result: batch,
        ..Default::default()
    })
}

fn retrieved(id: u128, point: &Stored) -> qd::RetrievedPoint {
    qd::RetrievedPoint {
        id: Some(point_id(id)),
        payload: point.payload.clone(),
        vectors: Some(output(&point.vectors)),
        ..Default::default()
    }
}

fn output(vectors: &HashMap<String, Vector>) -> qd::VectorsOutput {
    let one = |vector: &Vector| qd::VectorOutput {
        vector: match vector {
            Vector::Dense(dense) => Some(qd::vector_output::Vector::Dense(dense.clone())),
            Vector::Sparse(sparse) => Some(qd::vector_output::Vector::Sparse(sparse.clone())),
            _ => None,
        },
        ..Default::default()
    };
    let named = vectors
        .iter()
        .map(|(name, vector)| (name.clone(), one(vector)));
    let options = match vectors.get(UNNAMED) {
        Some(vector) => VectorsOptions::Vector(one(vector)),
        None => VectorsOptions::Vectors(qd::NamedVectorsOutput {
            vectors: named.collect(),
        }),
    };
    qd::VectorsOutput {
        vectors_options: Some(options),
    }
}
