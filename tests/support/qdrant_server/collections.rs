//! The collections service. Must not know points.

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::collections_server::Collections;
use tonic::Status;

use super::engine::{Collection, Engine};
use super::faults::Effect;
use super::{QdrantServer, methods};

impl Collections for QdrantServer {
    methods! { "collections"
        get(qd::GetCollectionInfoRequest) -> qd::GetCollectionInfoResponse = get;
        list(qd::ListCollectionsRequest) -> qd::ListCollectionsResponse = list;
        create(qd::CreateCollection) -> qd::CollectionOperationResponse = create;
        update(qd::UpdateCollection) -> qd::CollectionOperationResponse;
        delete(qd::DeleteCollection) -> qd::CollectionOperationResponse = delete;
        update_aliases(qd::ChangeAliases) -> qd::CollectionOperationResponse;
        list_collection_aliases(qd::ListCollectionAliasesRequest) -> qd::ListAliasesResponse;
        list_aliases(qd::ListAliasesRequest) -> qd::ListAliasesResponse;
        collection_cluster_info(qd::CollectionClusterInfoRequest) -> qd::CollectionClusterInfoResponse;
        collection_exists(qd::CollectionExistsRequest) -> qd::CollectionExistsResponse;
        update_collection_cluster_setup(qd::UpdateCollectionClusterSetupRequest) -> qd::UpdateCollectionClusterSetupResponse;
        create_shard_key(qd::CreateShardKeyRequest) -> qd::CreateShardKeyResponse;
        delete_shard_key(qd::DeleteShardKeyRequest) -> qd::DeleteShardKeyResponse;
        list_shard_keys(qd::ListShardKeysRequest) -> qd::ListShardKeysResponse;
    }
}

fn get(
    engine: &mut Engine,
    request: qd::GetCollectionInfoRequest,
    _: Effect,
) -> Result<qd::GetCollectionInfoResponse, Status> {
    let collection = engine.get(&request.collection_name)?;
    let created = collection.created.clone();
    let params = qd::CollectionParams {
        vectors_config: created.vectors_config,
        sparse_vectors_config: created.sparse_vectors_config,
        replication_factor: created.replication_factor,
        shard_number: created.shard_number.unwrap_or(1),
        ..Default::default()
    };
    let config = qd::CollectionConfig {
        params: Some(params),
        hnsw_config: created.hnsw_config,
        quantization_config: created.quantization_config,
        metadata: created.metadata,
        ..Default::default()
    };
    let info = qd::CollectionInfo {
        status: qd::CollectionStatus::Green.into(),
        config: Some(config),
        points_count: Some(collection.points.len() as u64),
        ..Default::default()
    };
    Ok(qd::GetCollectionInfoResponse {
        result: Some(info),
        time: 0.0,
    })
}

fn list(
    engine: &mut Engine,
    _: qd::ListCollectionsRequest,
    _: Effect,
) -> Result<qd::ListCollectionsResponse, Status> {
    let names = engine.collections.keys().cloned();
    Ok(qd::ListCollectionsResponse {
        collections: names
            .map(|name| qd::CollectionDescription { name })
            .collect(),
        time: 0.0,
    })
}

fn create(
    engine: &mut Engine,
    request: qd::CreateCollection,
    effect: Effect,
) -> Result<qd::CollectionOperationResponse, Status> {
    let name = request.collection_name.clone();
    if engine.collections.contains_key(&name) {
        let text = format!("Wrong input: Collection `{name}` already exists!");
        return Err(Status::already_exists(text));
    }
    let collection = Collection {
        created: request,
        ..Default::default()
    };
    engine.collections.insert(name, collection);
    match effect {
        Effect::Unanswered => Err(Status::deadline_exceeded("Timeout")),
        Effect::Whole | Effect::Half | Effect::Later => Ok(done(true)),
    }
}

fn delete(
    engine: &mut Engine,
    request: qd::DeleteCollection,
    _: Effect,
) -> Result<qd::CollectionOperationResponse, Status> {
    let deleted = engine.collections.remove(&request.collection_name);
    Ok(done(deleted.is_some()))
}

fn done(result: bool) -> qd::CollectionOperationResponse {
    qd::CollectionOperationResponse { result, time: 0.0 }
}
