//! The models as configured: loaded, and put together to sets.

use std::sync::Arc;

use crate::adapters::onnx::{InferenceConfig, InferencePool, ModelFolder, OnnxRuntime, Task};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::spi::{LexicalEncoder, ModelSet, ModelSets};

/// The models, loaded. Blocking: sessions are created one after the other.
///
/// # Errors
/// `InvalidField` on `onnx.library` or `models.dir`, with what to do.
pub fn load_models(config: &Config) -> Result<InferencePool> {
    let runtime = OnnxRuntime::load(&config.onnx.library)?;
    let threads = Some(config.inference.threads).filter(|threads| *threads > 0);
    let models = &config.models;
    let mut folders = vec![
        model(config, "models.dense", &models.dense, "dense")?,
        model(config, "models.sparse", &models.sparse, "sparse")?,
    ];
    for id in &models.previous {
        folders.push(previous(config, id)?);
    }
    if !models.cross_encoder.is_empty() {
        let id = &models.cross_encoder;
        folders.push(model(config, "models.cross_encoder", id, "cross-encoder")?);
    }
    InferencePool::start(
        &runtime,
        &InferenceConfig {
            threads,
            ..InferenceConfig::default()
        },
        folders,
    )
}

/// A model that does what its key wants.
fn model(config: &Config, key: &str, id: &str, task: &str) -> Result<ModelFolder> {
    let folder = ModelFolder::open(&config.models.dir, id)?;
    let does = folder.task().name();
    if does == task {
        return Ok(folder);
    }
    Err(Error::invalid_field(
        key,
        format!("names {id}, which is a {does} model, not a {task} one"),
    ))
}

/// An earlier model, dense or sparse.
fn previous(config: &Config, id: &str) -> Result<ModelFolder> {
    let folder = ModelFolder::open(&config.models.dir, id)?;
    match folder.task() {
        Task::Dense { .. } | Task::Sparse { .. } => Ok(folder),
        other => Err(Error::invalid_field(
            "models.previous",
            format!("names {id}, which is a {} model", other.name()),
        )),
    }
}

/// The current set, and every other pair of a dense and a sparse model that is loaded: a corpus may be of any of them.
pub(super) fn sets(
    config: &Config,
    pool: &InferencePool,
    lexical: &Arc<dyn LexicalEncoder>,
) -> Result<ModelSets> {
    let models = &config.models;
    let with = |own: &String, has: &dyn Fn(&str) -> bool| -> Vec<String> {
        let earlier = models.previous.iter().filter(|id| has(id.as_str()));
        std::iter::once(own).chain(earlier).cloned().collect()
    };
    let dense = with(&models.dense, &|id| pool.dense(id).is_ok());
    let sparse = with(&models.sparse, &|id| pool.sparse(id).is_ok());
    let mut sets = Vec::new();
    for dense in &dense {
        for sparse in &sparse {
            sets.push(ModelSet {
                dense: pool.dense(dense)?,
                sparse: pool.sparse(sparse)?,
                lexical: Arc::clone(lexical),
                tokens: pool.token_counter(dense)?,
            });
        }
    }
    let current = sets.remove(0);
    Ok(ModelSets::new(current, sets))
}
