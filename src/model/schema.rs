//! What a stored collection was built with. Compared, never "fixed".

use crate::error::{Error, ErrorKind, Result};

/// The version of the payload and vector layout this program writes.
pub const SCHEMA_VERSION: u32 = 2;

/// The distance of the dense vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// Cosine similarity.
    Cosine,
}

impl Distance {
    /// The name in stored metadata.
    pub const fn name(self) -> &'static str {
        match self {
            Distance::Cosine => "cosine",
        }
    }
}

/// Ids of the models that produced stored vectors or scores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelIds {
    /// The dense model.
    pub dense: String,
    /// The sparse model.
    pub sparse: String,
    /// The cross-encoder; empty when none is configured.
    pub cross_encoder: String,
}

/// Ids of the two models that a corpus' vectors are from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelPair {
    /// The dense model.
    pub dense: String,
    /// The sparse model.
    pub sparse: String,
}

/// What a collection was built with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionSchema {
    /// The layout's version.
    pub version: u32,
    /// The dense model's id.
    pub dense_model: String,
    /// The sparse model's id.
    pub sparse_model: String,
    /// Width of the dense vectors.
    pub dimension: u32,
    /// Distance of the dense vectors.
    pub distance: Distance,
    /// The lexical analysis' id.
    pub lexical: String,
}

impl CollectionSchema {
    /// The ids of its models.
    pub fn models(&self) -> ModelPair {
        ModelPair {
            dense: self.dense_model.clone(),
            sparse: self.sparse_model.clone(),
        }
    }

    /// The first difference to `other` as (what, own value, other value), or none.
    pub fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let pairs = [
            (
                "dense model",
                self.dense_model.clone(),
                other.dense_model.clone(),
            ),
            (
                "sparse model",
                self.sparse_model.clone(),
                other.sparse_model.clone(),
            ),
            (
                "dimension",
                self.dimension.to_string(),
                other.dimension.to_string(),
            ),
            (
                "distance",
                self.distance.name().into(),
                other.distance.name().into(),
            ),
            (
                "schema version",
                self.version.to_string(),
                other.version.to_string(),
            ),
            (
                "lexical analysis",
                self.lexical.clone(),
                other.lexical.clone(),
            ),
        ];
        pairs.into_iter().find(|(_, own, theirs)| own != theirs)
    }

    /// Refuses a collection that was built with something else than is wanted.
    ///
    /// # Errors
    /// `SchemaConflict` with both values of the first difference.
    pub fn require(&self, wanted: &Self) -> Result<()> {
        match self.difference(wanted) {
            None => Ok(()),
            Some((what, stored, wanted)) => Err(Error::new(
                ErrorKind::SchemaConflict,
                format!("the collection was built with {what} {stored}, not with {wanted}"),
            )),
        }
    }
}
