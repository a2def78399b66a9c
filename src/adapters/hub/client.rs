//! The hub: what it states about a file, and the file's bytes.
//!
//! Must not know where a model goes in the end, nor who asked.

use std::path::PathBuf;
use std::time::Duration;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};

use super::check;
use super::patience::patiently;
use super::recipe::{Recipe, RemoteFile};
use super::stage::Stage;
use crate::error::{Error, ErrorKind, Result};

/// How to reach a hub.
#[derive(Clone)]
pub struct HubAccess {
    /// Where it is: the part before `/owner/name/resolve/…`.
    pub endpoint: String,
    /// Who asks; empty = nobody.
    pub token: String,
    /// Whether to draw how far a download is.
    pub draws: bool,
    /// How long it may send nothing.
    pub patience: Duration,
}

/// What the hub states about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stated {
    /// Bytes.
    pub size: u64,
    /// The digest of the content, for files as a hub keeps them.
    pub etag: String,
    /// The commit that the revision stands for.
    pub commit: String,
}

/// One model's repository on a hub.
pub struct Hub {
    access: HubAccess,
    recipe: Recipe,
    stage: Stage,
    api: Api,
}

impl Hub {
    /// Prepares to fetch the recipe's files into the stage. Nothing is sent yet, and nothing outside the stage is read
    /// or written: neither a cache nor a token of the user's.
    ///
    /// # Errors
    /// `Internal` when there can be no client.
    pub fn new(access: HubAccess, recipe: Recipe, stage: Stage) -> Result<Self> {
        let token = Some(access.token.clone()).filter(|token| !token.is_empty());
        let api = ApiBuilder::from_cache(Cache::new(stage.cache()))
            .with_endpoint(access.endpoint.trim_end_matches('/').to_owned())
            .with_token(token)
            .with_progress(false)
            .build()
            .map_err(|e| Error::internal("no client for the hub").caused_by(e))?;
        Ok(Self {
            access,
            recipe,
            stage,
            api,
        })
    }

    /// Asks what the hub has, in the order of the recipe's files.
    ///
    /// # Errors
    /// `NotFound` when it hasn't a file, `DependencyFailed` when it can't be asked or answers oddly.
    pub fn look_up(&self) -> Result<Vec<Stated>> {
        let stated: Vec<Stated> = (self.recipe.files().into_iter())
            .map(|file| self.ask(file))
            .collect::<Result<_>>()?;
        if stated.iter().any(|one| one.commit != stated[0].commit) {
            let problem = format!(
                "{} changed while it was looked up; try again",
                self.recipe.repository()
            );
            return Err(Error::new(ErrorKind::DependencyFailed, problem));
        }
        Ok(stated)
    }

    fn ask(&self, file: &RemoteFile) -> Result<Stated> {
        let url = self.api.repo(self.repo()).url(&file.path);
        let api = self.api.clone();
        let metadata = patiently(self.access.patience, move |_| api.metadata(&url))
            .map_err(|e| self.unreachable(e))?
            .map_err(|e| self.failed(file, e))?;
        // A proxy that could have repacked the bytes marks the etag; what it names is the same content.
        let etag = metadata.etag();
        let stated = Stated {
            size: metadata.size() as u64,
            etag: etag.strip_prefix("W/").unwrap_or(etag).to_owned(),
            commit: metadata.commit_hash().to_owned(),
        };
        // The client makes file names of both.
        if [&stated.etag, &stated.commit].iter().all(|n| is_plain(n)) {
            return Ok(stated);
        }
        let problem = format!("the hub's etag or commit of {} is none", file.path);
        Err(Error::new(ErrorKind::DependencyFailed, problem))
    }

    /// Fetches every file, checks it, and writes the manifest beside them.
    ///
    /// # Errors
    /// As [`Hub::look_up`], and `DependencyFailed` when a file isn't what the hub or the recipe states.
    pub fn fetch(self, stated: &[Stated]) -> Result<Stage> {
        for (file, stated) in self.recipe.files().into_iter().zip(stated) {
            let cached = self.download(file)?;
            let place = self.stage.take(&cached, file.name)?;
            check::check(&place, file, stated)?;
        }
        let commit = stated.first().map_or("", |one| one.commit.as_str());
        (self.stage).write("model.toml", &self.recipe.manifest_at(commit))?;
        Ok(self.stage)
    }

    fn download(&self, file: &RemoteFile) -> Result<PathBuf> {
        let repository = self.api.repo(self.repo());
        let (path, draws) = (file.path.clone(), self.access.draws);
        patiently(self.access.patience, move |heartbeat| {
            repository.download_with_progress(&path, heartbeat.drawn(draws))
        })
        .map_err(|e| self.unreachable(e))?
        .map_err(|e| self.failed(file, e))
    }

    fn repo(&self) -> Repo {
        Repo::with_revision(
            self.recipe.repository().to_owned(),
            RepoType::Model,
            self.recipe.revision().to_owned(),
        )
    }

    fn failed(&self, file: &RemoteFile, error: ApiError) -> Error {
        let (repository, revision) = (self.recipe.repository(), self.recipe.revision());
        let what = format!("{} of {repository} at {revision}", file.path);
        match status(&error) {
            Some(404) => Error::new(
                ErrorKind::NotFound,
                format!("the hub has no {what}; another --revision or --endpoint may"),
            ),
            Some(code @ (401 | 403)) => Error::new(
                ErrorKind::NotFound,
                format!(
                    "the hub doesn't give {what} ({code}): it has none, or wants models.hub_token"
                ),
            ),
            Some(code) => Error::new(
                ErrorKind::DependencyFailed,
                format!("the hub answered {code} for {what}"),
            ),
            None => self.unreachable(Error::dependency(format!("no {what}"), error)),
        }
    }

    /// Without the hub the same folder can be made by hand.
    fn unreachable(&self, cause: Error) -> Error {
        let (id, endpoint) = (self.recipe.id(), &self.access.endpoint);
        let problem = format!(
            "the hub {endpoint} can't be reached or broke off; try again, set models.hub_endpoint to another, or put \
             model.onnx, tokenizer.json and model.toml into the folder {id} of models.dir by hand (`ragbus models pull \
             {id} --show-manifest` prints the last)"
        );
        Error::new(ErrorKind::DependencyFailed, problem).caused_by(cause)
    }
}

/// The client hides its own client's error type, but not its text.
fn status(error: &ApiError) -> Option<u16> {
    let ApiError::RequestError(inner) = error else {
        return None;
    };
    inner
        .to_string()
        .strip_prefix("http status: ")?
        .parse()
        .ok()
}

fn is_plain(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(allowed)
}
