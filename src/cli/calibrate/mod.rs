//! `ragbus calibrate`: when a cross-encoder's output means `CORRECT` or `INCORRECT`, from judged queries.
//!
//! Queries are split: thresholds come from one part, the figures told from the other. Workers read the result when they start.

mod manifest;
mod outcome;
mod replies;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::args_eval::CalibrateArgs;
use super::eval::asking::{Answer, Asked, Asking};
use super::eval::{dataset, info};
use super::{context, output};
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::nats::Client;
use crate::wire::v1::{self, ExpansionOptions, corrective, expansion_options::Strategy};
use outcome::Outcome;

/// As many as a request may have: the more are graded, the more judged pairs there are.
const LIMIT: i32 = 100;

pub(super) async fn run(config: &Config, args: &CalibrateArgs) -> Result<ExitCode> {
    let (tenant, corpus) = (
        context::tenant(&args.target.tenant)?,
        context::corpus(&args.target)?,
    );
    let judged = dataset::judged(&args.folder, &args.judged)?;
    let models = args.model_dir.as_deref().unwrap_or(&config.models.dir);
    let (client, connection) = context::client(config, &tenant).await?;
    if let Some(model) = info(&client)
        .await?
        .models
        .map(|m| m.cross_encoder)
        .filter(|m| !m.is_empty())
    {
        // Before minutes of grading, not after.
        manifest_of(models, &model)?;
    }
    let answers = graded(&client, corpus.as_str(), args, &judged).await?;
    connection.close().await;
    let model = model_of(&answers)?;
    let path = manifest_of(models, &model)?;
    let outcome = Outcome::of(args, &model, &judged, &answers)?;
    if !args.dry_run {
        let of_corpus = args.per_corpus.then(|| format!("{tenant}/{corpus}"));
        let text = dataset::text(&path)?;
        let text = manifest::with_calibration(&text, &outcome.entry, of_corpus.as_deref())?;
        manifest::replace(&path, &text)?;
    }
    if args.json {
        output::json(&outcome.json(args.dry_run))?;
    } else {
        outcome.print(args.dry_run)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn graded(
    client: &Client,
    corpus: &str,
    args: &CalibrateArgs,
    judged: &dataset::Judged,
) -> Result<Vec<Answer>> {
    let asking = Asking {
        client,
        corpus,
        limit: LIMIT,
        budget: Duration::from_millis(args.timeout_ms),
        concurrency: args.concurrency.into(),
    };
    let options = v1::RetrieveOptions {
        expansion: Some(ExpansionOptions {
            strategy: Strategy::None.into(),
            hypotheticals: None,
        }),
        corrective: corrective::Mode::Grade.into(),
        rerank: Some(false),
        ..v1::RetrieveOptions::default()
    };
    eprintln!("grading the results of {} queries", judged.queries.len());
    let mut answers = Vec::new();
    let each = |answer| answers.push(answer);
    match asking.all(&judged.queries, &options, each).await? {
        Asked::Answered => Ok(answers),
        Asked::Refused(reason) => {
            let problem = format!(
                "the service grades nothing ({reason}): set models.cross_encoder to a model in models.dir and start the workers again"
            );
            Err(Error::new(ErrorKind::InvalidField, problem))
        }
    }
}

/// The one model that graded.
fn model_of(answers: &[Answer]) -> Result<String> {
    let mut models = answers
        .iter()
        .filter_map(|answer| answer.response.models.as_ref());
    let first = models
        .next()
        .map(|m| m.cross_encoder.clone())
        .unwrap_or_default();
    if first.is_empty() {
        let problem =
            "replies name no cross-encoder: set models.cross_encoder and start the workers again";
        return Err(Error::new(ErrorKind::InvalidField, problem));
    }
    if models.any(|other| other.cross_encoder != first) {
        let problem = "workers with different cross-encoders answered: outputs of two models can't be calibrated as one";
        return Err(Error::new(ErrorKind::InvalidField, problem));
    }
    Ok(first)
}

/// The manifest of a model, which must be in this machine's folder of models.
fn manifest_of(models: &Path, model: &str) -> Result<PathBuf> {
    let plain = !model.is_empty() && !model.starts_with('.') && !model.contains(['/', '\\']);
    let path = models.join(model).join("model.toml");
    if plain && path.is_file() {
        return Ok(path);
    }
    let problem = format!(
        "has no {model:?}, with which the service grades: give its folder with --model-dir"
    );
    Err(Error::invalid_field("models.dir", problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(model: &str) -> Answer {
        let models = v1::Models {
            cross_encoder: model.into(),
            ..v1::Models::default()
        };
        let response = v1::RetrieveResponse {
            models: Some(models),
            ..v1::RetrieveResponse::default()
        };
        Answer {
            query: "q".into(),
            response,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn one_model_must_have_graded() {
        assert_eq!(model_of(&[answer("m"), answer("m")]).expect("a model"), "m");
        assert!(model_of(&[answer("")]).is_err() && model_of(&[]).is_err());
        assert!(
            model_of(&[answer("m"), answer("n")])
                .unwrap_err()
                .message()
                .contains("different")
        );
    }

    #[test]
    fn a_model_is_a_folder_with_a_manifest() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("m")).expect("a folder");
        assert!(
            manifest_of(dir.path(), "m")
                .unwrap_err()
                .message()
                .contains("--model-dir")
        );
        std::fs::write(dir.path().join("m/model.toml"), "").expect("written");
        assert!(manifest_of(dir.path(), "m").is_ok());
        for id in ["", "..", "../m", "a/b"] {
            assert!(manifest_of(dir.path(), id).is_err(), "{id:?}");
        }
    }
}
