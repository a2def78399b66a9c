//! Typed caller metadata. Must not know payload keys of a store or JSON.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// The most keys one chunk's or document's metadata may have.
pub const MAX_METADATA_KEYS: usize = 64;
/// The most bytes of keys and values together.
pub const MAX_METADATA_BYTES: usize = 16 * 1024;
/// 2⁵³: beyond it a double no longer holds every integer.
pub const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

const MAX_KEY: usize = 64;

/// One metadata value. Numbers are doubles, as on the wire.
#[derive(Debug, Clone, PartialEq)]
pub enum MetadataValue {
    /// Text.
    String(String),
    /// A finite number.
    Number(f64),
    /// A truth value.
    Bool(bool),
    /// A list of texts (the empty list too).
    Strings(Vec<String>),
    /// A list of finite numbers.
    Numbers(Vec<f64>),
}

/// Metadata of a document or chunk, validated and ordered by key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metadata(BTreeMap<String, MetadataValue>);

impl Metadata {
    /// Validates keys, numbers, count and size. `field` is the wire name the entries came under.
    ///
    /// # Errors
    /// `InvalidField` naming the key.
    pub fn new(field: &str, entries: BTreeMap<String, MetadataValue>) -> Result<Self> {
        if entries.len() > MAX_METADATA_KEYS {
            return Err(Error::invalid_field(field, "has more than 64 keys"));
        }
        let mut bytes = 0;
        for (key, value) in &entries {
            check_key(field, key)?;
            check_numbers(field, key, value)?;
            bytes += key.len() + value_bytes(value);
        }
        if bytes > MAX_METADATA_BYTES {
            return Err(Error::invalid_field(field, "is larger than 16 KiB"));
        }
        Ok(Self(entries))
    }

    /// This metadata with `own` laid over it: a key of `own` wins.
    ///
    /// # Errors
    /// `InvalidField` when the two together break the limits of one.
    pub fn overlaid(&self, field: &str, own: &Metadata) -> Result<Self> {
        let mut merged = self.0.clone();
        merged.extend(own.0.iter().map(|(k, v)| (k.clone(), v.clone())));
        Self::new(field, merged)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&MetadataValue> {
        self.0.get(key)
    }

    /// Entries in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &MetadataValue)> {
        self.0.iter()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a caller may use this key: `^[A-Za-z][A-Za-z0-9_-]{0,63}$`.
pub(super) fn is_metadata_key(key: &str) -> bool {
    key.len() <= MAX_KEY
        && key.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

fn check_key(field: &str, key: &str) -> Result<()> {
    if is_metadata_key(key) {
        Ok(())
    } else {
        // The key itself may be private text: only its field is named.
        Err(Error::invalid_field(
            field,
            "has a key that doesn't match ^[A-Za-z][A-Za-z0-9_-]{0,63}$",
        ))
    }
}

/// Whether a number can be stored and compared exactly as it was sent.
pub(super) fn is_exact(number: f64) -> bool {
    number.is_finite() && !(number.fract() == 0.0 && number.abs() > MAX_EXACT_INTEGER)
}

fn check_numbers(field: &str, key: &str, value: &MetadataValue) -> Result<()> {
    let exact = match value {
        MetadataValue::Number(n) => is_exact(*n),
        MetadataValue::Numbers(list) => list.iter().all(|n| is_exact(*n)),
        MetadataValue::String(_) | MetadataValue::Bool(_) | MetadataValue::Strings(_) => true,
    };
    if exact {
        Ok(())
    } else {
        Err(Error::invalid_field(
            format!("{field}.{key}"),
            "must be a finite number, and an integer not beyond 2^53",
        ))
    }
}

fn value_bytes(value: &MetadataValue) -> usize {
    match value {
        MetadataValue::String(text) => text.len(),
        MetadataValue::Number(_) => 8,
        MetadataValue::Bool(_) => 1,
        MetadataValue::Strings(list) => list.iter().map(|text| text.len() + 2).sum(),
        MetadataValue::Numbers(list) => list.len() * 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, value: MetadataValue) -> Result<Metadata> {
        Metadata::new("metadata", BTreeMap::from([(key.to_owned(), value)]))
    }

    #[test]
    fn keys_are_checked() {
        assert!(one("Year-2_x", MetadataValue::Bool(true)).is_ok());
        for bad in ["", "_x", "a.b", "1a", "ä", &"k".repeat(65)] {
            assert!(one(bad, MetadataValue::Bool(true)).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_must_be_exact() {
        assert!(one("n", MetadataValue::Number(MAX_EXACT_INTEGER)).is_ok());
        assert!(one("n", MetadataValue::Number(0.1)).is_ok());
        for bad in [f64::NAN, f64::INFINITY, MAX_EXACT_INTEGER * 2.0] {
            assert!(one("n", MetadataValue::Numbers(vec![1.0, bad])).is_err());
        }
    }

    #[test]
    fn size_and_count_are_limited() {
        let big = MetadataValue::String("x".repeat(MAX_METADATA_BYTES));
        assert!(one("k", big).is_err());
        let many = (0..65)
            .map(|i| (format!("k{i}"), MetadataValue::Bool(true)))
            .collect();
        assert!(Metadata::new("metadata", many).is_err());
    }
}
