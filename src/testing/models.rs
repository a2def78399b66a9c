//! Model sets of encoders that hash words. Must not know a real model.

use std::sync::Arc;

use super::HashLexicalEncoder;
use super::encoders::{HashDenseEncoder, HashSparseEncoder, WordCounter};
use crate::spi::{DenseEncoder, ModelSet, ModelSets};

/// The one set `dense-hash`, `sparse-hash` with dense vectors of `dimension`.
pub fn hash_models(dimension: u32) -> ModelSets {
    ModelSets::of(hash_set("dense-hash", dimension))
}

/// A set with a dense model of this id, which also decides what it makes of a word.
pub fn hash_set(dense: &str, dimension: u32) -> ModelSet {
    hash_set_over(Arc::new(HashDenseEncoder::new(dense, dimension, 256)))
}

/// A set over this dense model.
pub fn hash_set_over(dense: Arc<dyn DenseEncoder>) -> ModelSet {
    ModelSet {
        dense,
        sparse: Arc::new(HashSparseEncoder::new("sparse-hash", 256)),
        lexical: Arc::new(HashLexicalEncoder),
        tokens: Arc::new(WordCounter),
    }
}
