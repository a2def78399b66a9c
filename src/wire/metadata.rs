//! Caller metadata to and from `google.protobuf.Struct`.

use std::collections::BTreeMap;

use pbjson_types::{ListValue, Struct, Value, value::Kind};

use crate::error::{Error, Result};
use crate::model::{Metadata, MetadataValue};

/// Decodes and validates metadata; `field` is its wire name. Absent = empty.
///
/// # Errors
/// `InvalidField` naming the key: null, objects, mixed or nested lists, and what the model refuses.
pub(super) fn metadata_of(field: &str, fields: Option<Struct>) -> Result<Metadata> {
    let entries = fields.map(|s| s.fields).unwrap_or_default();
    let mut typed = BTreeMap::new();
    for (key, value) in entries {
        match typed_value(value) {
            Some(value) => typed.insert(key, value),
            None => return Err(Error::invalid_field(field_of(field, &key), WANTED)),
        };
    }
    Metadata::new(field, typed)
}

const WANTED: &str = "must be a string, a number, a bool, or a list of strings or of numbers";

/// Names the key only when it looks like one; anything else could be text.
fn field_of(field: &str, key: &str) -> String {
    let plain = key.len() <= 64
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if plain {
        format!("{field}.{key}")
    } else {
        field.to_owned()
    }
}

fn typed_value(value: Value) -> Option<MetadataValue> {
    match value.kind? {
        Kind::StringValue(text) => Some(MetadataValue::String(text)),
        Kind::NumberValue(number) => Some(MetadataValue::Number(number)),
        Kind::BoolValue(truth) => Some(MetadataValue::Bool(truth)),
        Kind::ListValue(list) => typed_list(list.values),
        Kind::NullValue(_) | Kind::StructValue(_) => None,
    }
}

fn typed_list(values: Vec<Value>) -> Option<MetadataValue> {
    let numbers = matches!(
        values.first().and_then(|v| v.kind.as_ref()),
        Some(Kind::NumberValue(_))
    );
    if numbers {
        let list = values.into_iter().map(|v| match v.kind {
            Some(Kind::NumberValue(number)) => Some(number),
            _ => None,
        });
        list.collect::<Option<_>>().map(MetadataValue::Numbers)
    } else {
        let list = values.into_iter().map(|v| match v.kind {
            Some(Kind::StringValue(text)) => Some(text),
            _ => None,
        });
        list.collect::<Option<_>>().map(MetadataValue::Strings)
    }
}

/// Encodes metadata.
pub fn struct_of(metadata: &Metadata) -> Struct {
    let fields = metadata
        .iter()
        .map(|(key, value)| (key.clone(), wire_value(value)));
    Struct {
        fields: fields.collect(),
    }
}

fn wire_value(value: &MetadataValue) -> Value {
    let list = |values: Vec<Value>| Kind::ListValue(ListValue { values });
    let kind = match value {
        MetadataValue::String(text) => Kind::StringValue(text.clone()),
        MetadataValue::Number(number) => Kind::NumberValue(*number),
        MetadataValue::Bool(truth) => Kind::BoolValue(*truth),
        MetadataValue::Strings(texts) => list(texts.iter().map(|t| t.clone().into()).collect()),
        MetadataValue::Numbers(numbers) => list(numbers.iter().map(|n| (*n).into()).collect()),
    };
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(json: &str) -> Result<Metadata> {
        metadata_of("metadata", Some(serde_json::from_str(json).expect("json")))
    }

    #[test]
    fn odd_values_are_refused_by_name() {
        for bad in [
            r#"{"k":null}"#,
            r#"{"k":{}}"#,
            r#"{"k":[1,"a"]}"#,
            r#"{"k":[[1]]}"#,
            r#"{"k":[true]}"#,
        ] {
            let error = decoded(bad).expect_err(bad);
            assert_eq!(error.field(), Some("metadata.k"), "{bad}");
        }
    }

    fn value() -> impl Strategy<Value = MetadataValue> {
        prop_oneof![
            ".{0,20}".prop_map(MetadataValue::String),
            (-1e15..1e15f64).prop_map(MetadataValue::Number),
            any::<bool>().prop_map(MetadataValue::Bool),
            prop::collection::vec(".{0,8}", 0..4).prop_map(MetadataValue::Strings),
            prop::collection::vec(-1e9..1e9f64, 1..4).prop_map(MetadataValue::Numbers),
        ]
    }

    proptest! {
        #[test]
        fn every_value_survives_a_round_trip(
            entries in prop::collection::btree_map("[A-Za-z][A-Za-z0-9_-]{0,10}", value(), 0..6),
        ) {
            let metadata = Metadata::new("metadata", entries).expect("valid");
            let json = serde_json::to_string(&struct_of(&metadata)).expect("writable");
            prop_assert_eq!(decoded(&json).expect("valid"), metadata);
        }
    }
}
