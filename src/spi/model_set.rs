//! The models that a generation of a corpus is built and asked with, and which of several sets fits a corpus.
//!
//! Must not know what a model does.

use std::sync::Arc;

use super::{DenseEncoder, LexicalEncoder, SparseEncoder, TokenCounter};
use crate::model::{CollectionSchema, Distance, ModelPair, SCHEMA_VERSION};

/// Two models and the lexical analysis that belong together.
#[derive(Debug, Clone)]
pub struct ModelSet {
    /// The dense model.
    pub dense: Arc<dyn DenseEncoder>,
    /// The sparse model.
    pub sparse: Arc<dyn SparseEncoder>,
    /// The lexical analysis.
    pub lexical: Arc<dyn LexicalEncoder>,
    /// Counts tokens as the dense model does.
    pub tokens: Arc<dyn TokenCounter>,
}

impl ModelSet {
    /// What a collection is created with.
    pub fn schema(&self) -> CollectionSchema {
        CollectionSchema {
            version: SCHEMA_VERSION,
            dense_model: self.dense.info().id.clone(),
            sparse_model: self.sparse.info().id.clone(),
            dimension: self.dense.info().dimension,
            distance: Distance::Cosine,
            lexical: self.lexical.id().to_owned(),
        }
    }

    /// The models' ids.
    pub fn ids(&self) -> ModelPair {
        self.schema().models()
    }
}

/// What a worker has loaded: the set that new generations are built with, and earlier ones that corpora may still be of.
#[derive(Debug, Clone)]
pub struct ModelSets {
    current: ModelSet,
    previous: Vec<ModelSet>,
}

impl ModelSets {
    /// Only one set.
    pub fn of(current: ModelSet) -> Self {
        Self::new(current, Vec::new())
    }

    /// A set and its predecessors.
    pub fn new(current: ModelSet, previous: Vec<ModelSet>) -> Self {
        Self { current, previous }
    }

    /// The set that new generations are built with.
    pub fn current(&self) -> &ModelSet {
        &self.current
    }

    /// Whether there is nothing to choose.
    pub fn is_single(&self) -> bool {
        self.previous.is_empty()
    }

    /// The set of these models.
    pub fn named(&self, models: &ModelPair) -> Option<&ModelSet> {
        let all = std::iter::once(&self.current).chain(&self.previous);
        all.into_iter().find(|set| set.ids() == *models)
    }
}
