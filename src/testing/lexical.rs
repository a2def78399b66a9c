//! A lexical analysis without languages: words in lower case, weight 1. Must not know the real one.

use std::collections::BTreeSet;

use super::encoders::{hash, words};
use crate::model::SparseVector;
use crate::spi::LexicalEncoder;

/// Hashes words.
#[derive(Debug, Clone, Copy, Default)]
pub struct HashLexicalEncoder;

impl LexicalEncoder for HashLexicalEncoder {
    fn id(&self) -> &str {
        "lexical-hash"
    }

    fn encode_document(&self, text: &str) -> SparseVector {
        let places: BTreeSet<u32> = words(text).map(|word| (hash(&word) >> 32) as u32).collect();
        SparseVector {
            values: vec![1.0; places.len()],
            indices: places.into_iter().collect(),
        }
    }

    fn encode_query(&self, text: &str) -> SparseVector {
        self.encode_document(text)
    }
}
