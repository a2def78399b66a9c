//! Points to and from the server's payloads and vectors.
//! Must not know when or why a point is written.

use std::collections::HashMap;

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::vectors_output::VectorsOptions;
use uuid::Uuid;

use super::metadata;
use super::schema::Map;
use crate::adapters::payload_names::{
    CONTENT, DOCUMENT, EXPIRES, HASH, METADATA, ORDINAL, SEQUENCE, SPAN_END, SPAN_START, TENANT,
};
use crate::error::{Error, Result};
use crate::model::{
    Chunk, ChunkId, DocumentId, Leg, Span, SparseVector, StoredChunk, TenantId, Timestamp,
};
use crate::spi::{Point, Vectors};

/// The server's form of a chunk id.
pub(super) fn point_id(id: ChunkId) -> qd::PointId {
    Uuid::from_u128(id.0).to_string().into()
}

fn chunk_id(id: Option<qd::PointId>) -> Result<ChunkId> {
    match id.and_then(|id| id.point_id_options) {
        Some(PointIdOptions::Uuid(text)) => {
            let uuid = Uuid::parse_str(&text).map_err(|_| damaged("id"))?;
            Ok(ChunkId(uuid.as_u128()))
        }
        Some(PointIdOptions::Num(_)) | None => Err(damaged("id")),
    }
}

/// The server's form of a point. Empty sparse vectors are left out.
pub(super) fn encode(tenant: &TenantId, point: &Point) -> qd::PointStruct {
    let dense = qd::Vector::new_dense(point.vectors.dense.clone());
    let mut vectors = HashMap::from([(Leg::Dense.name().to_owned(), dense)]);
    for (leg, vector) in sparse_legs(&point.vectors) {
        if !vector.is_empty() {
            let vector = qd::Vector::new_sparse(vector.indices.clone(), vector.values.clone());
            vectors.insert(leg.name().to_owned(), vector);
        }
    }
    qd::PointStruct {
        id: Some(point_id(point.stored.id)),
        payload: encode_payload(tenant, point),
        vectors: Some(qd::NamedVectors { vectors }.into()),
    }
}

/// The sparse vectors of a point with their legs.
pub(super) fn sparse_legs(vectors: &Vectors) -> [(Leg, &SparseVector); 2] {
    [(Leg::Sparse, &vectors.sparse), (Leg::Bm25, &vectors.bm25)]
}

fn encode_payload(tenant: &TenantId, point: &Point) -> Map {
    let stored = &point.stored;
    let chunk = &stored.chunk;
    let mut payload = Map::new();
    let mut put = |key: &str, value: qd::Value| payload.insert(key.to_owned(), value);
    put(TENANT, tenant.as_str().into());
    put(DOCUMENT, stored.document_id.as_str().into());
    // Checked to be below 2^53.
    put(SEQUENCE, (stored.sequence as i64).into());
    put(ORDINAL, i64::from(chunk.ordinal).into());
    put(CONTENT, chunk.content.as_str().into());
    put(HASH, stored.content_hash.as_str().into());
    if let Some(span) = chunk.span {
        put(SPAN_START, i64::from(span.start).into());
        put(SPAN_END, i64::from(span.end).into());
    }
    if let Some(expires) = point.expires_at {
        put(EXPIRES, expires.as_micros().into());
    }
    put(METADATA, metadata::encode(&chunk.metadata));
    payload
}

/// A stored point without its vectors.
pub(super) fn decode(id: Option<qd::PointId>, mut payload: Map) -> Result<StoredChunk> {
    let span = match (payload.get(SPAN_START), payload.get(SPAN_END)) {
        (None, None) => None,
        _ => Some(Span {
            start: number(&payload, SPAN_START)?,
            end: number(&payload, SPAN_END)?,
        }),
    };
    let word = |key| text(payload.get(key)).ok_or_else(|| damaged(key));
    Ok(StoredChunk {
        id: chunk_id(id)?,
        document_id: DocumentId::new(word(DOCUMENT)?)?,
        sequence: number(&payload, SEQUENCE)?,
        content_hash: word(HASH)?.to_owned(),
        chunk: Chunk {
            ordinal: number(&payload, ORDINAL)?,
            content: word(CONTENT)?.to_owned(),
            span,
            metadata: metadata::decode(payload.remove(METADATA))?,
        },
    })
}

/// A stored point with its vectors; absent sparse vectors come back empty.
pub(super) fn decode_point(record: qd::RetrievedPoint) -> Result<Point> {
    let options = record.vectors.and_then(|vectors| vectors.vectors_options);
    let Some(VectorsOptions::Vectors(mut named)) = options else {
        return Err(damaged("vectors"));
    };
    let mut take = |leg: Leg| {
        let vector = named.vectors.remove(leg.name());
        vector.map(qd::VectorOutput::into_vector)
    };
    let Some(qd::vector_output::Vector::Dense(dense)) = take(Leg::Dense) else {
        return Err(damaged("dense vector"));
    };
    let vectors = Vectors {
        dense: dense.data,
        sparse: sparse(take(Leg::Sparse)),
        bm25: sparse(take(Leg::Bm25)),
    };
    let expires = integer(record.payload.get(EXPIRES));
    Ok(Point {
        stored: decode(record.id, record.payload)?,
        expires_at: expires.map(Timestamp::from_micros),
        vectors,
    })
}

/// A server keeps no order of a sparse vector's terms.
fn sparse(vector: Option<qd::vector_output::Vector>) -> SparseVector {
    let Some(qd::vector_output::Vector::Sparse(vector)) = vector else {
        return SparseVector::default();
    };
    let mut terms: Vec<(u32, f32)> = vector.indices.into_iter().zip(vector.values).collect();
    terms.sort_unstable_by_key(|(index, _)| *index);
    let (indices, values) = terms.into_iter().unzip();
    SparseVector { indices, values }
}

/// The owner of a stored point.
pub(super) fn owner(payload: &Map) -> Option<&str> {
    text(payload.get(TENANT))
}

/// A value's text.
pub(super) fn text(value: Option<&qd::Value>) -> Option<&str> {
    match value?.kind.as_ref()? {
        Kind::StringValue(text) => Some(text),
        Kind::NullValue(_)
        | Kind::DoubleValue(_)
        | Kind::IntegerValue(_)
        | Kind::BoolValue(_)
        | Kind::StructValue(_)
        | Kind::ListValue(_) => None,
    }
}

/// A value's whole number.
pub(super) fn integer(value: Option<&qd::Value>) -> Option<i64> {
    match value?.kind.as_ref()? {
        Kind::IntegerValue(number) => Some(*number),
        Kind::NullValue(_)
        | Kind::DoubleValue(_)
        | Kind::StringValue(_)
        | Kind::BoolValue(_)
        | Kind::StructValue(_)
        | Kind::ListValue(_) => None,
    }
}

fn number<T: TryFrom<i64>>(payload: &Map, key: &'static str) -> Result<T> {
    let number = integer(payload.get(key)).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| damaged(key))
}

/// A stored point that this program did not write.
pub(super) fn damaged(what: &str) -> Error {
    Error::internal(format!("a stored point has no usable {what}"))
}
