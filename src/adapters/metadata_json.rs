//! Metadata as JSON text, for the registries. Must not know the wire: stored text outlives it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{Metadata, MetadataValue};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Bool(bool),
    Number(f64),
    String(String),
    // An empty list reads as strings, as everywhere.
    Strings(Vec<String>),
    Numbers(Vec<f64>),
}

/// Writes metadata.
pub(super) fn to_json(metadata: &Metadata) -> String {
    let stored = |value: &MetadataValue| match value {
        MetadataValue::String(text) => Stored::String(text.clone()),
        MetadataValue::Number(number) => Stored::Number(*number),
        MetadataValue::Bool(truth) => Stored::Bool(*truth),
        MetadataValue::Strings(texts) => Stored::Strings(texts.clone()),
        MetadataValue::Numbers(numbers) => Stored::Numbers(numbers.clone()),
    };
    let entries: BTreeMap<&String, Stored> = metadata.iter().map(|(k, v)| (k, stored(v))).collect();
    // Strings, finite numbers and bools have no way to fail.
    serde_json::to_string(&entries).unwrap_or_default()
}

/// Reads metadata back.
///
/// # Errors
/// `DependencyFailed` when the text is none that [`to_json`] wrote.
pub(super) fn from_json(text: &str) -> Result<Metadata> {
    let damaged = || {
        Error::new(
            ErrorKind::DependencyFailed,
            "the registry holds damaged metadata",
        )
    };
    let entries: BTreeMap<String, Stored> =
        serde_json::from_str(text).map_err(|e| damaged().caused_by(e))?;
    let value = |stored| match stored {
        Stored::Bool(truth) => MetadataValue::Bool(truth),
        Stored::Number(number) => MetadataValue::Number(number),
        Stored::String(text) => MetadataValue::String(text),
        Stored::Strings(texts) => MetadataValue::Strings(texts),
        Stored::Numbers(numbers) => MetadataValue::Numbers(numbers),
    };
    let entries = entries
        .into_iter()
        .map(|(key, stored)| (key, value(stored)));
    Metadata::new("metadata", entries.collect()).map_err(|e| damaged().caused_by(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_comes_back() {
        let entries = [
            ("text", MetadataValue::String("2020".into())),
            ("number", MetadataValue::Number(0.1)),
            ("whole", MetadataValue::Number(2020.0)),
            ("truth", MetadataValue::Bool(true)),
            (
                "texts",
                MetadataValue::Strings(vec!["a".into(), "1".into()]),
            ),
            ("numbers", MetadataValue::Numbers(vec![1.0, 2.5])),
            ("none", MetadataValue::Strings(vec![])),
        ];
        let entries = entries
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .collect();
        let metadata = Metadata::new("metadata", entries).expect("valid");
        assert_eq!(from_json(&to_json(&metadata)).expect("reads"), metadata);
        assert!(from_json(r#"{"k":{}}"#).is_err());
    }
}
