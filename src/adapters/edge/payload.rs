//! Points to and from the engine's payloads and vectors.
//! Must not know when or why a point is written.

use std::collections::{BTreeMap, HashMap};

use qdrant_edge as qe;
use serde_json::{Map, Number, Value};
use uuid::Uuid;

use super::engine::sparse;
use crate::adapters::payload_names::{
    CONTENT, DOCUMENT, EXPIRES, HASH, METADATA, ORDINAL, SEQUENCE, SPAN_END, SPAN_START, TENANT,
};
use crate::error::{Error, Result};
use crate::model::{
    Chunk, ChunkId, DocumentId, Leg, Metadata, MetadataValue, Span, SparseVector, StoredChunk,
    TenantId, Timestamp,
};
use crate::spi::{Point, Vectors};

/// The engine's form of a chunk id.
pub(super) fn point_id(id: ChunkId) -> qe::PointId {
    qe::PointId::Uuid(Uuid::from_u128(id.0))
}

/// The chunk id of a stored point.
pub(super) fn chunk_id(id: qe::PointId) -> Result<ChunkId> {
    match id {
        qe::PointId::Uuid(uuid) => Ok(ChunkId(uuid.as_u128())),
        qe::PointId::NumId(_) => Err(damaged("id")),
    }
}

/// The engine's form of a point. Empty sparse vectors are left out.
pub(super) fn encode(tenant: &TenantId, point: &Point) -> Result<qe::PointStructPersisted> {
    let mut vectors = HashMap::new();
    let dense = qe::VectorPersisted::Dense(point.vectors.dense.clone());
    vectors.insert(Leg::Dense.name().to_owned(), dense);
    for (leg, vector) in sparse_legs(&point.vectors) {
        if !vector.is_empty() {
            vectors.insert(
                leg.name().to_owned(),
                qe::VectorPersisted::Sparse(sparse(vector)),
            );
        }
    }
    Ok(qe::PointStructPersisted {
        id: point_id(point.stored.id),
        vector: qe::VectorStructPersisted::Named(vectors),
        payload: Some(qe::Payload(encode_payload(tenant, point)?)),
    })
}

/// The sparse vectors of a point with their legs.
pub(super) fn sparse_legs(vectors: &Vectors) -> [(Leg, &SparseVector); 2] {
    [(Leg::Sparse, &vectors.sparse), (Leg::Bm25, &vectors.bm25)]
}

fn encode_payload(tenant: &TenantId, point: &Point) -> Result<Map<String, Value>> {
    let StoredChunk {
        document_id,
        sequence,
        chunk,
        content_hash,
        ..
    } = &point.stored;
    let mut payload = Map::new();
    let mut put = |key: &str, value: Value| payload.insert(key.to_owned(), value);
    put(TENANT, tenant.as_str().into());
    put(DOCUMENT, document_id.as_str().into());
    put(SEQUENCE, (*sequence).into());
    put(ORDINAL, chunk.ordinal.into());
    put(CONTENT, chunk.content.as_str().into());
    put(HASH, content_hash.as_str().into());
    if let Some(span) = chunk.span {
        put(SPAN_START, span.start.into());
        put(SPAN_END, span.end.into());
    }
    if let Some(expires) = point.expires_at {
        put(EXPIRES, expires.as_micros().into());
    }
    put(METADATA, Value::Object(encode_metadata(&chunk.metadata)?));
    Ok(payload)
}

fn encode_metadata(metadata: &Metadata) -> Result<Map<String, Value>> {
    let encoded = metadata.iter().map(|(key, value)| {
        let value = match value {
            MetadataValue::String(text) => Value::from(text.as_str()),
            MetadataValue::Number(number) => encode_number(*number)?,
            MetadataValue::Bool(flag) => Value::Bool(*flag),
            MetadataValue::Strings(list) => list.iter().map(String::as_str).collect(),
            MetadataValue::Numbers(list) => Value::Array(
                list.iter()
                    .map(|n| encode_number(*n))
                    .collect::<Result<_>>()?,
            ),
        };
        Ok((key.clone(), value))
    });
    encoded.collect()
}

fn encode_number(number: f64) -> Result<Value> {
    // Metadata is checked when it is built, so this is a bug elsewhere.
    let number = Number::from_f64(number);
    number
        .map(Value::Number)
        .ok_or_else(|| Error::internal("a metadata number is not finite"))
}

/// A stored point without its vectors.
pub(super) fn decode(id: qe::PointId, payload: Option<qe::Payload>) -> Result<StoredChunk> {
    let mut payload = payload.ok_or_else(|| damaged("payload"))?.0;
    let span = match (payload.get(SPAN_START), payload.get(SPAN_END)) {
        (None, None) => None,
        (start, end) => Some(Span {
            start: number(start).ok_or_else(|| damaged(SPAN_START))?,
            end: number(end).ok_or_else(|| damaged(SPAN_END))?,
        }),
    };
    let sequence = payload.get(SEQUENCE).and_then(Value::as_u64);
    let ordinal = number(payload.get(ORDINAL));
    Ok(StoredChunk {
        id: chunk_id(id)?,
        document_id: DocumentId::new(&text(&mut payload, DOCUMENT)?)?,
        sequence: sequence.ok_or_else(|| damaged(SEQUENCE))?,
        content_hash: text(&mut payload, HASH)?,
        chunk: Chunk {
            ordinal: ordinal.ok_or_else(|| damaged(ORDINAL))?,
            content: text(&mut payload, CONTENT)?,
            span,
            metadata: decode_metadata(payload.remove(METADATA))?,
        },
    })
}

/// A stored point with its vectors; absent sparse vectors come back empty.
pub(super) fn decode_point(record: qe::Record) -> Result<Point> {
    let expires = record
        .payload
        .as_ref()
        .and_then(|payload| payload.0.get(EXPIRES)?.as_i64());
    let Some(qe::VectorStructInternal::Named(mut named)) = record.vector else {
        return Err(damaged("vectors"));
    };
    let dense = match named.remove(Leg::Dense.name()) {
        Some(qe::VectorInternal::Dense(dense)) => dense,
        Some(qe::VectorInternal::Sparse(_) | qe::VectorInternal::MultiDense(_)) | None => {
            return Err(damaged("dense vector"));
        }
    };
    let mut take = |leg: Leg| match named.remove(leg.name()) {
        Some(qe::VectorInternal::Sparse(mut vector)) => {
            vector.sort_by_indices();
            SparseVector {
                indices: vector.indices,
                values: vector.values,
            }
        }
        Some(qe::VectorInternal::Dense(_) | qe::VectorInternal::MultiDense(_)) | None => {
            SparseVector::default()
        }
    };
    let vectors = Vectors {
        dense,
        sparse: take(Leg::Sparse),
        bm25: take(Leg::Bm25),
    };
    Ok(Point {
        stored: decode(record.id, record.payload)?,
        expires_at: expires.map(Timestamp::from_micros),
        vectors,
    })
}

/// The tenant and sequence of a stored point.
pub(super) fn fence(payload: Option<&qe::Payload>) -> Option<(&str, u64)> {
    let payload = &payload?.0;
    Some((
        payload.get(TENANT)?.as_str()?,
        payload.get(SEQUENCE)?.as_u64()?,
    ))
}

fn decode_metadata(value: Option<Value>) -> Result<Metadata> {
    let Some(Value::Object(map)) = value else {
        return Err(damaged(METADATA));
    };
    let entries = map
        .into_iter()
        .map(|(key, value)| Ok((key, decode_value(value)?)));
    Metadata::new(METADATA, entries.collect::<Result<BTreeMap<_, _>>>()?)
}

fn decode_value(value: Value) -> Result<MetadataValue> {
    let wrong = || damaged(METADATA);
    match value {
        Value::String(text) => Ok(MetadataValue::String(text)),
        Value::Bool(flag) => Ok(MetadataValue::Bool(flag)),
        Value::Number(number) => number.as_f64().map(MetadataValue::Number).ok_or_else(wrong),
        Value::Array(list) if list.first().is_some_and(Value::is_number) => {
            let numbers = list.iter().map(Value::as_f64).collect::<Option<_>>();
            numbers.map(MetadataValue::Numbers).ok_or_else(wrong)
        }
        Value::Array(list) => {
            let texts = list.into_iter().map(|item| match item {
                Value::String(text) => Some(text),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => None,
            });
            texts
                .collect::<Option<_>>()
                .map(MetadataValue::Strings)
                .ok_or_else(wrong)
        }
        Value::Null | Value::Object(_) => Err(wrong()),
    }
}

fn text(payload: &mut Map<String, Value>, key: &'static str) -> Result<String> {
    match payload.remove(key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) | None => Err(damaged(key)),
    }
}

fn number(value: Option<&Value>) -> Option<u32> {
    u32::try_from(value?.as_u64()?).ok()
}

fn damaged(what: &str) -> Error {
    Error::internal(format!("a stored point has no usable {what}"))
}
