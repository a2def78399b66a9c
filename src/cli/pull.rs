//! `ragbus models pull`.
//!
//! Joins the hub's recipe and download with what a model folder must be. Must not know the hub's protocol.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::args::PullArgs;
use super::output;
use crate::adapters::hub::{Hub, HubAccess, Recipe, Stage, Stated};
use crate::adapters::onnx::{Checksums, ModelFolder, Task};
use crate::config::Config;
use crate::error::{Error, Result};

/// How long a hub may send nothing.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(config: &Config, args: &PullArgs) -> Result<ExitCode> {
    let recipe = recipe(args)?;
    ModelFolder::check_manifest(&recipe.manifest(), recipe.id())?;
    if args.show_manifest {
        return output::line(recipe.manifest().trim_end()).map(|()| ExitCode::SUCCESS);
    }
    let models = &config.models.dir;
    if !args.force && models.join(recipe.id()).symlink_metadata().is_ok() {
        return already_there(models, &recipe, args);
    }
    let stage = Stage::open(models, recipe.id())?;
    let hub = Hub::new(access(config, args), recipe.clone(), stage)?;
    let stated = hub.look_up()?;
    announce(config, args, &recipe, &stated)?;
    let stage = hub.fetch(&stated)?;
    let folder = ModelFolder::open(stage.dir(), recipe.id())?;
    let checksums = folder.record_checksums()?;
    let place = stage.place(args.force)?;
    finished(args, &recipe, folder.task(), &place, &checksums)
}

fn recipe(args: &PullArgs) -> Result<Recipe> {
    let mut recipe = match &args.manifest {
        None => Recipe::known(&args.name)?,
        Some(path) => of_file(path, &args.name)?,
    };
    if let Some(revision) = &args.revision {
        recipe = recipe.at_revision(revision)?;
    }
    match &args.sha256 {
        Some(sha256) => recipe.with_graph_sha256(sha256),
        None => Ok(recipe),
    }
}

fn of_file(path: &Path, name: &str) -> Result<Recipe> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::invalid_field("--manifest", format!("{} can't be read", path.display())).caused_by(e)
    })?;
    let recipe = Recipe::parse(&text)?;
    if recipe.id() != name {
        let problem = format!(
            "has the id {:?}, the model to pull is {name:?}",
            recipe.id()
        );
        return Err(Error::invalid_field("--manifest", problem));
    }
    Ok(recipe)
}

fn access(config: &Config, args: &PullArgs) -> HubAccess {
    HubAccess {
        endpoint: config.models.hub_endpoint.clone(),
        token: config.models.hub_token.expose().to_owned(),
        draws: !args.json && std::io::stderr().is_terminal(),
        patience: PATIENCE,
    }
}

/// An intact model that is the one asked for is no work; anything else in its place is not ours to replace unasked.
fn already_there(models: &Path, recipe: &Recipe, args: &PullArgs) -> Result<ExitCode> {
    let place = models.join(recipe.id());
    let exists = |why: &str| {
        let problem = format!(
            "{} is there already, {why}; --force replaces it",
            place.display()
        );
        Error::invalid_field("models.dir", problem)
    };
    let folder = ModelFolder::open(models, recipe.id())
        .map_err(|e| exists("and is no usable model").caused_by(e))?;
    let Some(checksums) = folder.check_checksums()? else {
        return Err(exists("and wasn't pulled"));
    };
    if checksums
        .iter()
        .any(|(file, is)| recipe.wants_other(file, is))
    {
        return Err(exists("with other checksums"));
    }
    let revision = args.revision.as_ref();
    if revision.is_some_and(|revision| !Recipe::is_at(folder.source(), revision)) {
        return Err(exists("and may be of another revision"));
    }
    if args.json {
        output::json(&json!({ "id": recipe.id(), "status": "present", "folder": place }))?;
    } else {
        output::line(&format!("{} is there already, intact", place.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is about to be downloaded, before it is.
fn announce(config: &Config, args: &PullArgs, recipe: &Recipe, stated: &[Stated]) -> Result<()> {
    let bytes: u64 = stated.iter().map(|one| one.size).sum();
    let commit = stated.first().map_or("", |one| one.commit.as_str());
    let target = config.models.dir.join(recipe.id());
    let endpoint = &config.models.hub_endpoint;
    if args.json {
        return output::json(&json!({
            "id": recipe.id(), "status": "found", "licence": recipe.licence(), "source": recipe.source(),
            "endpoint": endpoint, "repository": recipe.repository(), "revision": recipe.revision(),
            "commit": commit, "bytes": bytes, "folder": target,
        }));
    }
    let megabytes = bytes as f64 / 1e6;
    let lines = [
        format!("model    {}", recipe.id()),
        format!("licence  {}", recipe.licence()),
        format!("source   {}", recipe.source()),
        format!("from     {endpoint}: {} at {commit}", recipe.repository()),
        format!("size     {megabytes:.1} MB"),
        format!("to       {}", target.display()),
    ];
    output::line(&lines.join("\n"))
}

fn finished(
    args: &PullArgs,
    recipe: &Recipe,
    task: Task,
    place: &Path,
    checksums: &Checksums,
) -> Result<ExitCode> {
    let key = match task {
        Task::Dense { .. } => "models.dense",
        Task::Sparse { .. } => "models.sparse",
        Task::CrossEncoder { .. } => "models.cross_encoder",
    };
    let uncalibrated = matches!(task, Task::CrossEncoder { .. }) && !recipe.is_calibrated();
    if args.json {
        output::json(&json!({
            "id": recipe.id(), "status": "pulled", "task": task.name(), "folder": place, "sha256": checksums,
            "configKey": key, "calibrated": !uncalibrated,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (file, digest) in checksums {
        output::line(&format!("checked  {file} sha256 {digest}"))?;
    }
    output::line(&format!("pulled   {}", place.display()))?;
    output::line(&format!(
        "next     set {key} = {:?}, then `ragbus models verify`",
        recipe.id()
    ))?;
    if uncalibrated {
        output::line(
            "         its scores are read by guessed values until `ragbus calibrate` has measured yours",
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
