//! A collection's birth and end: vectors, indexes, and the comparison of what is there with what is wanted.
//!
//! Losing a race for the creation is a success: the winner's collection is compared, never replaced. Must not know marks.

use std::collections::HashMap;
use std::time::Duration;

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::payload_index_params::IndexParams;
use qdrant_client::qdrant::quantization_config::Quantization as Method;
use tokio::time::sleep;

use super::call::{Caller, Failed, Failure, absent, applied};
use super::config::{HnswOptions, QdrantConfig, Quantization};
use super::schema;
use crate::adapters::payload_names::{DOCUMENT, SEQUENCE, TENANT};
use crate::error::{Error, Result};
use crate::model::{CollectionSchema, Leg};

/// A new collection can't be read at once: its shards come up after the answer.
const READS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// An index of a payload field.
pub(super) type Index = (&'static str, qd::FieldType, IndexParams);

/// Creates the collection if need be, compares it, and makes its indexes. Idempotent, also in a race.
///
/// # Errors
/// `SchemaConflict` when it was built with something else.
pub(super) async fn ensure(
    caller: &Caller,
    config: &QdrantConfig,
    name: &str,
    wanted: &CollectionSchema,
) -> Result<()> {
    create(caller, request(config, name, wanted)).await?;
    compare(&readable(caller, name).await?, wanted)?;
    // Before any data: the graph of a tenant's points is built for what is indexed by then.
    for index in indexes() {
        create_index(caller, name, index).await?;
    }
    Ok(())
}

/// Creates a collection; one that is there is fine.
pub(super) async fn create(caller: &Caller, request: qd::CreateCollection) -> Result<(), Failed> {
    let created = caller.call("create_collection", |client, seconds| {
        let mut request = request.clone();
        request.timeout = Some(seconds);
        async move { Ok(client.create_collection(request).await?) }
    });
    match created.await {
        Ok(_) => Ok(()),
        Err(failed) if failed.failure == Failure::Exists => Ok(()),
        Err(failed) => Err(failed),
    }
}

/// Creates an index; one that is there is fine.
pub(super) async fn create_index(
    caller: &Caller,
    collection: &str,
    (field, kind, params): Index,
) -> Result<(), Failed> {
    let request = qd::CreateFieldIndexCollection {
        collection_name: collection.to_owned(),
        wait: Some(true),
        field_name: field.to_owned(),
        field_type: Some(kind.into()),
        field_index_params: Some(qd::PayloadIndexParams {
            index_params: Some(params),
        }),
        ..Default::default()
    };
    let create = caller.call("create_field_index", |client, seconds| {
        let mut request = request.clone();
        request.timeout = Some(seconds);
        async move { applied(client.create_field_index(request).await?) }
    });
    create.await
}

/// Drops a collection; one that isn't there is fine.
pub(super) async fn delete(caller: &Caller, name: &str) -> Result<(), Failed> {
    let delete = caller.call("delete_collection", |client, seconds| {
        let request = qd::DeleteCollection {
            collection_name: name.to_owned(),
            timeout: Some(seconds),
        };
        async move { Ok(client.delete_collection(request).await?) }
    });
    absent(delete.await).map(drop)
}

/// The index of a tenant's name: it keeps a tenant's points together.
pub(super) fn tenant_index() -> Index {
    let params = qd::KeywordIndexParams {
        is_tenant: Some(true),
        ..Default::default()
    };
    let params = IndexParams::KeywordIndexParams(params);
    (TENANT, qd::FieldType::Keyword, params)
}

/// The index of a name that no vector search filters by.
pub(super) fn name_index(field: &'static str) -> Index {
    let params = qd::KeywordIndexParams {
        enable_hnsw: Some(false),
        ..Default::default()
    };
    let params = IndexParams::KeywordIndexParams(params);
    (field, qd::FieldType::Keyword, params)
}

fn indexes() -> [Index; 3] {
    let sequence = qd::IntegerIndexParams {
        lookup: Some(true),
        range: Some(true),
        enable_hnsw: Some(false),
        ..Default::default()
    };
    let sequence = IndexParams::IntegerIndexParams(sequence);
    [
        tenant_index(),
        name_index(DOCUMENT),
        (SEQUENCE, qd::FieldType::Integer, sequence),
    ]
}

fn request(config: &QdrantConfig, name: &str, wanted: &CollectionSchema) -> qd::CreateCollection {
    let dense = qd::VectorParams {
        size: wanted.dimension.into(),
        distance: qd::Distance::Cosine.into(),
        ..Default::default()
    };
    let vectors = qd::VectorParamsMap {
        map: HashMap::from([(Leg::Dense.name().to_owned(), dense)]),
    };
    let term = |leg: Leg| {
        let params = qd::SparseVectorParams {
            index: None,
            modifier: Some(modifier(leg).into()),
        };
        (leg.name().to_owned(), params)
    };
    qd::CreateCollection {
        collection_name: name.to_owned(),
        hnsw_config: graph(config.hnsw),
        quantization_config: quantization(config.quantization),
        shard_number: config.shards,
        replication_factor: config.replication_factor,
        vectors_config: Some(qd::VectorsConfig {
            config: Some(qd::vectors_config::Config::ParamsMap(vectors)),
        }),
        sparse_vectors_config: Some(qd::SparseVectorConfig {
            map: HashMap::from([term(Leg::Sparse), term(Leg::Bm25)]),
        }),
        metadata: schema::encode(wanted),
        ..Default::default()
    }
}

/// SPLADE weights are final; BM25's need the words' rarity, which the server knows.
fn modifier(leg: Leg) -> qd::Modifier {
    match leg {
        Leg::Bm25 => qd::Modifier::Idf,
        Leg::Dense | Leg::Sparse => qd::Modifier::None,
    }
}

fn graph(options: HnswOptions) -> Option<qd::HnswConfigDiff> {
    let set = qd::HnswConfigDiff {
        m: options.m.map(u64::from),
        ef_construct: options.ef_construct.map(u64::from),
        payload_m: options.payload_m.map(u64::from),
        ..Default::default()
    };
    (set != qd::HnswConfigDiff::default()).then_some(set)
}

fn quantization(kind: Quantization) -> Option<qd::QuantizationConfig> {
    let method = match kind {
        Quantization::None => return None,
        Quantization::Scalar => Method::Scalar(qd::ScalarQuantization {
            r#type: qd::QuantizationType::Int8.into(),
            ..Default::default()
        }),
        Quantization::Binary => Method::Binary(qd::BinaryQuantization::default()),
    };
    Some(qd::QuantizationConfig {
        quantization: Some(method),
    })
}

/// What the server says of a collection that was just created, by us or by another.
pub(super) async fn readable(caller: &Caller, name: &str) -> Result<qd::CollectionConfig> {
    let mut reads = 1;
    loop {
        let read = caller.call("collection_info", |client, _| {
            let name = name.to_owned();
            async move { Ok(client.collection_info(name).await?) }
        });
        match read.await {
            Ok(response) => {
                let config = response.result.and_then(|info| info.config);
                return config
                    .ok_or_else(|| Error::internal("the vector store described no collection"));
            }
            Err(failed) if failed.failure == Failure::Gone && reads < READS => sleep(PAUSE).await,
            Err(failed) => return Err(failed.into()),
        }
        reads += 1;
    }
}

fn compare(config: &qd::CollectionConfig, wanted: &CollectionSchema) -> Result<()> {
    let foreign = || schema::conflict("a collection of this name was not made by this program");
    let stored = schema::decode(&config.metadata).ok_or_else(foreign)?;
    stored.require(wanted)?;
    let params = config.params.as_ref().ok_or_else(foreign)?;
    // The record agrees; do the vectors, or did somebody change them?
    let vectors = params.vectors_config.as_ref();
    let Some(qd::vectors_config::Config::ParamsMap(dense)) =
        vectors.and_then(|vectors| vectors.config.as_ref())
    else {
        return Err(foreign());
    };
    let dense = dense.map.get(Leg::Dense.name()).ok_or_else(foreign)?;
    let sparse = params.sparse_vectors_config.as_ref().ok_or_else(foreign)?;
    let is_built = |leg: Leg| {
        let stored = sparse.map.get(leg.name());
        stored.is_some_and(|stored| stored.modifier() == modifier(leg))
    };
    if dense.size != u64::from(wanted.dimension) || dense.distance() != qd::Distance::Cosine {
        return Err(schema::conflict(&format!(
            "the collection's vectors are {} {} wide, its record says {} {}",
            dense.distance().as_str_name(),
            dense.size,
            wanted.distance.name(),
            wanted.dimension,
        )));
    }
    if is_built(Leg::Sparse) && is_built(Leg::Bm25) {
        Ok(())
    } else {
        Err(foreign())
    }
}
