//! `ragbus models list|verify`; `pull` has its own file.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;

use super::args::{JsonArgs, ModelsArgs, ModelsCommand};
use super::{context, output, pull};
use crate::adapters::onnx::{InferencePool, ModelFolder};
use crate::app;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::spi::{
    CrossEncoder, DenseEncoder, PairScoring, Priority, Role, SparseEncoder, TextEncoding,
};

pub(super) fn run(config: &Config, args: &ModelsArgs) -> Result<ExitCode> {
    match &args.command {
        ModelsCommand::List(args) => list(config, args),
        ModelsCommand::Pull(args) => pull::run(config, args),
        ModelsCommand::Verify(args) => context::block_on(verify(config, args)),
    }
}

fn list(config: &Config, args: &JsonArgs) -> Result<ExitCode> {
    let mut table = output::table([
        "model",
        "task",
        "dimension",
        "max tokens",
        "in use",
        "licence",
    ]);
    for id in folders(&config.models.dir)? {
        let models = &config.models;
        let in_use = [&models.dense, &models.sparse, &models.cross_encoder].contains(&&id);
        match intact(&config.models.dir, &id) {
            Ok(model) if args.json => output::json(&json!({
                "id": model.id(), "task": model.task().name(), "dimension": model.dimension(),
                "maxTokens": model.max_tokens(), "inUse": in_use, "licence": model.licence(),
                "source": model.source(),
            }))?,
            Ok(model) => {
                table.add_row([
                    model.id(),
                    model.task().name(),
                    &model.dimension().to_string(),
                    &model.max_tokens().to_string(),
                    if in_use { "yes" } else { "" },
                    model.licence(),
                ]);
            }
            Err(error) if args.json => {
                output::json(&json!({ "id": id, "problem": error.chain() }))?
            }
            Err(error) => {
                table.add_row([id.as_str(), "unusable", "", "", "", &error.chain()]);
            }
        }
    }
    if !args.json {
        output::line(&table.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A model whose files are what they were when they were pulled.
fn intact(dir: &Path, id: &str) -> Result<ModelFolder> {
    let model = ModelFolder::open(dir, id)?;
    model.check_checksums()?;
    Ok(model)
}

fn folders(dir: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(dir).map_err(|e| {
        let problem = format!(
            "{} can't be read: run `make setup`, or set another folder",
            dir.display()
        );
        Error::invalid_field("models.dir", problem).caused_by(e)
    })?;
    let mut ids: Vec<String> = entries
        .filter_map(std::result::Result::ok)
        .filter(|entry| entry.path().join("model.toml").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    ids.sort();
    Ok(ids)
}

async fn verify(config: &Config, args: &JsonArgs) -> Result<ExitCode> {
    let configured = config.clone();
    let load = move || {
        let models = &configured.models;
        for id in [&models.dense, &models.sparse, &models.cross_encoder] {
            if !id.is_empty() {
                intact(&models.dir, id)?;
            }
        }
        app::load_models(&configured)
    };
    let pool = tokio::task::spawn_blocking(load)
        .await
        .map_err(|e| Error::internal("loading models panicked").caused_by(e))??;
    let request = TextEncoding {
        texts: vec!["A short text to see that the model runs.".to_owned()],
        role: Role::Document,
        priority: Priority::Interactive,
        deadline: None,
    };
    let started = Instant::now();
    let dense = pool
        .dense(&config.models.dense)?
        .encode_dense(request.clone())
        .await?;
    report(args, &config.models.dense, only(dense)?.tokens, started)?;
    let started = Instant::now();
    let sparse = pool
        .sparse(&config.models.sparse)?
        .encode_sparse(request)
        .await?;
    report(args, &config.models.sparse, only(sparse)?.tokens, started)?;
    verify_pair(config, args, &pool).await?;
    pool.close().await;
    Ok(ExitCode::SUCCESS)
}

async fn verify_pair(config: &Config, args: &JsonArgs, pool: &InferencePool) -> Result<()> {
    let id = &config.models.cross_encoder;
    if id.is_empty() {
        return Ok(());
    }
    let request = PairScoring {
        query: "Does the model run?".to_owned(),
        documents: vec!["A short text to see that the model runs.".to_owned()],
        priority: Priority::Interactive,
        deadline: None,
    };
    let started = Instant::now();
    let scored = pool.cross_encoder(id)?.score_pairs(request).await?;
    report(args, id, only(scored)?.tokens, started)
}

fn only<T>(results: Vec<Result<T>>) -> Result<T> {
    let first = results.into_iter().next();
    first.unwrap_or_else(|| Err(Error::internal("a model gave no answer")))
}

fn report(args: &JsonArgs, id: &str, tokens: u32, started: Instant) -> Result<()> {
    let took = started.elapsed().as_secs_f64() * 1_000.0;
    if args.json {
        output::json(&json!({ "id": id, "ok": true, "tokens": tokens, "ms": took }))
    } else {
        output::line(&format!("{id}: ok ({tokens} tokens in {took:.1} ms)"))
    }
}
