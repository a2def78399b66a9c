//! Caller metadata to and from the server's values. Numbers are always doubles, so that they come back bit for bit.
//! Must not know points.

use std::collections::BTreeMap;

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::value::Kind;

use super::payload::{damaged, text};
use crate::adapters::payload_names::METADATA;
use crate::error::Result;
use crate::model::{Metadata, MetadataValue};

/// The server's form.
pub(super) fn encode(metadata: &Metadata) -> qd::Value {
    let entry = |(key, value): (&String, &MetadataValue)| (key.clone(), encode_value(value));
    let fields = metadata.iter().map(entry).collect();
    kind(Kind::StructValue(qd::Struct { fields }))
}

fn encode_value(value: &MetadataValue) -> qd::Value {
    match value {
        MetadataValue::String(text) => text.as_str().into(),
        MetadataValue::Number(number) => (*number).into(),
        MetadataValue::Bool(flag) => (*flag).into(),
        MetadataValue::Strings(list) => array(list.iter().map(|text| text.as_str().into())),
        MetadataValue::Numbers(list) => array(list.iter().map(|number| (*number).into())),
    }
}

fn array(values: impl Iterator<Item = qd::Value>) -> qd::Value {
    let values = values.collect();
    kind(Kind::ListValue(qd::ListValue { values }))
}

fn kind(kind: Kind) -> qd::Value {
    qd::Value { kind: Some(kind) }
}

/// What was stored.
///
/// # Errors
/// `Internal` when it was not written by this program.
pub(super) fn decode(value: Option<qd::Value>) -> Result<Metadata> {
    let Some(Kind::StructValue(map)) = value.and_then(|value| value.kind) else {
        return Err(damaged(METADATA));
    };
    let decoded = |(key, value): (String, qd::Value)| {
        let value = decode_value(value).ok_or_else(|| damaged(METADATA))?;
        Ok((key, value))
    };
    let entries = map.fields.into_iter().map(decoded);
    Metadata::new(METADATA, entries.collect::<Result<BTreeMap<_, _>>>()?)
}

fn decode_value(value: qd::Value) -> Option<MetadataValue> {
    match value.kind? {
        Kind::StringValue(text) => Some(MetadataValue::String(text)),
        Kind::BoolValue(flag) => Some(MetadataValue::Bool(flag)),
        Kind::DoubleValue(number) => Some(MetadataValue::Number(number)),
        Kind::IntegerValue(number) => Some(MetadataValue::Number(number as f64)),
        Kind::ListValue(list) if list.values.first().is_some_and(is_number) => {
            let numbers = list.values.iter().map(number);
            numbers.collect::<Option<_>>().map(MetadataValue::Numbers)
        }
        Kind::ListValue(list) => {
            let texts = list.values.iter();
            let texts = texts.map(|value| text(Some(value)).map(str::to_owned));
            texts.collect::<Option<_>>().map(MetadataValue::Strings)
        }
        Kind::NullValue(_) | Kind::StructValue(_) => None,
    }
}

fn is_number(value: &qd::Value) -> bool {
    number(value).is_some()
}

/// A server may give a whole number back as an integer.
fn number(value: &qd::Value) -> Option<f64> {
    match value.kind.as_ref()? {
        Kind::DoubleValue(number) => Some(*number),
        Kind::IntegerValue(number) => Some(*number as f64),
        Kind::NullValue(_)
        | Kind::StringValue(_)
        | Kind::BoolValue(_)
        | Kind::StructValue(_)
        | Kind::ListValue(_) => None,
    }
}
