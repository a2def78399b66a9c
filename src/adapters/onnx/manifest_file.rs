//! The keys of `model.toml` as they are written, and which of them a task has.
//!
//! Must not know files or folders.

use serde::Deserialize;

use super::calibration_table;
use super::manifest::{DensePooling, PairActivation, SparseActivation, Task};
use crate::model::Calibrations;

/// A manifest as it is written. Problems are sentences without the file's name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) id: String,
    task: TaskName,
    pub(super) dimension: u32,
    pub(super) max_tokens: u32,
    pooling: Option<Pooling>,
    normalized: Option<bool>,
    #[serde(default)]
    pub(super) query_prefix: String,
    #[serde(default)]
    pub(super) document_prefix: String,
    pub(super) output: String,
    pub(super) licence: String,
    pub(super) source: String,
    pub(super) batch_invariant: bool,
    sparse: Option<SparseTable>,
    cross_encoder: Option<CrossEncoderTable>,
    calibration: Option<toml::Table>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TaskName {
    Dense,
    Sparse,
    CrossEncoder,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pooling {
    Mean,
    Cls,
    Max,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SparseTable {
    activation: SparseActivation,
    threshold: f32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrossEncoderTable {
    activation: PairActivation,
}

impl Manifest {
    /// What the model does, with the keys that only its task has.
    pub(super) fn task(&self) -> Result<Task, String> {
        if self.dimension == 0 || self.max_tokens == 0 {
            return Err("dimension and max_tokens must be at least 1".into());
        }
        if let TaskName::CrossEncoder = self.task {
            return self.cross_encoder();
        }
        if self.cross_encoder.is_some() || self.calibration.is_some() {
            return Err("only a cross-encoder has [cross_encoder] and [calibration]".into());
        }
        let (Some(pooling), Some(normalized)) = (self.pooling, self.normalized) else {
            return Err("a dense or sparse model needs pooling and normalized".into());
        };
        match self.task {
            TaskName::Dense => self.dense(pooling, normalized),
            _ => self.sparse(pooling),
        }
    }

    fn dense(&self, pooling: Pooling, normalized: bool) -> Result<Task, String> {
        if self.sparse.is_some() {
            return Err("a dense model has no [sparse] table".into());
        }
        let pooling = match pooling {
            Pooling::Mean => DensePooling::Mean,
            Pooling::Cls => DensePooling::Cls,
            Pooling::Max => return Err("pooling of a dense model is \"mean\" or \"cls\"".into()),
        };
        Ok(Task::Dense {
            pooling,
            normalized,
        })
    }

    fn sparse(&self, pooling: Pooling) -> Result<Task, String> {
        let Some(sparse) = &self.sparse else {
            return Err("a sparse model needs a [sparse] table".into());
        };
        if !matches!(pooling, Pooling::Max) {
            return Err("pooling of a sparse model is \"max\"".into());
        }
        if !(sparse.threshold.is_finite() && sparse.threshold >= 0.0) {
            return Err("sparse.threshold must be 0 or above".into());
        }
        Ok(Task::Sparse {
            activation: sparse.activation,
            threshold: sparse.threshold,
        })
    }

    fn cross_encoder(&self) -> Result<Task, String> {
        let Some(table) = &self.cross_encoder else {
            return Err("a cross-encoder needs a [cross_encoder] table".into());
        };
        if self.pooling.is_some() || self.normalized.is_some() || self.sparse.is_some() {
            return Err("a cross-encoder has no pooling, normalized or [sparse]".into());
        }
        if self.dimension != 1 {
            return Err("dimension of a cross-encoder is 1: it gives one score a pair".into());
        }
        Ok(Task::CrossEncoder {
            activation: table.activation,
        })
    }

    /// The measured calibrations, or the conservative one.
    pub(super) fn calibrations(&self) -> Result<Calibrations, String> {
        calibration_table::read(self.calibration.clone().unwrap_or_default())
    }
}
