//! What a collection was built with, to and from a map of values: the metadata of a collection and a part of a mark.
//! Must not know collections.

use std::collections::HashMap;

use qdrant_client::qdrant as qd;

use super::payload::{integer, text};
use crate::error::{Error, ErrorKind};
use crate::model::{CollectionSchema, Distance};

const VERSION: &str = "schema_version";
const DENSE_MODEL: &str = "dense_model";
const SPARSE_MODEL: &str = "sparse_model";
const DIMENSION: &str = "dimension";
const DISTANCE: &str = "distance";
const LEXICAL: &str = "lexical";

/// Named values, as the server keeps them.
pub(super) type Map = HashMap<String, qd::Value>;

/// The map of a schema.
pub(super) fn encode(schema: &CollectionSchema) -> Map {
    let entries: [(&str, qd::Value); 6] = [
        (VERSION, i64::from(schema.version).into()),
        (DENSE_MODEL, schema.dense_model.as_str().into()),
        (SPARSE_MODEL, schema.sparse_model.as_str().into()),
        (DIMENSION, i64::from(schema.dimension).into()),
        (DISTANCE, schema.distance.name().into()),
        (LEXICAL, schema.lexical.as_str().into()),
    ];
    let named = |(key, value): (&str, qd::Value)| (key.to_owned(), value);
    entries.into_iter().map(named).collect()
}

/// The schema in a map; `None` when it isn't one of ours.
pub(super) fn decode(map: &Map) -> Option<CollectionSchema> {
    let number = |key| u32::try_from(integer(map.get(key))?).ok();
    let word = |key| text(map.get(key)).map(str::to_owned);
    (text(map.get(DISTANCE))? == Distance::Cosine.name()).then_some(())?;
    Some(CollectionSchema {
        version: number(VERSION)?,
        dense_model: word(DENSE_MODEL)?,
        sparse_model: word(SPARSE_MODEL)?,
        dimension: number(DIMENSION)?,
        distance: Distance::Cosine,
        lexical: word(LEXICAL)?,
    })
}

/// A collection that can't be used as it is.
pub(super) fn conflict(message: &str) -> Error {
    Error::new(ErrorKind::SchemaConflict, message)
}
