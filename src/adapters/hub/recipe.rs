//! What a pull needs to know of a model: a `model.toml` with a `[hub]` table.
//!
//! ```toml
//! [hub]
//! repository = "owner/name"
//! revision = "main"                # a branch, a tag or a commit
//! graph = "onnx/model.onnx"        # paths inside the repository
//! graph_sha256 = "…"               # optional; what the files are at this revision
//! tokenizer = "tokenizer.json"
//! tokenizer_sha256 = "…"
//! ```
//!
//! The rest is the manifest of the model's folder. Must not know the network, or what the manifest's keys mean.

use std::path::{Component, Path};

use serde::Deserialize;
use toml_edit::DocumentMut;

use crate::error::{Error, Result};

/// What is known by name: the name is the id of its template.
const KNOWN: [(&str, &str); 3] = [
    (
        "ms-marco-MiniLM-L-6-v2",
        include_str!("known/ms-marco-MiniLM-L-6-v2.toml"),
    ),
    (
        "bge-small-en-v1.5",
        include_str!("known/bge-small-en-v1.5.toml"),
    ),
    (
        "Splade_PP_en_v1",
        include_str!("known/Splade_PP_en_v1.toml"),
    ),
];

/// A file of a repository, and its name in the model's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Path in the repository.
    pub path: String,
    /// Name in the folder.
    pub name: &'static str,
    /// What its SHA-256 must be, in lower-case hexadecimal.
    pub sha256: Option<String>,
}

/// One model: where its files are, and the manifest that goes beside them.
#[derive(Debug, Clone)]
pub struct Recipe {
    id: String,
    licence: String,
    source: String,
    repository: String,
    revision: String,
    graph: RemoteFile,
    tokenizer: RemoteFile,
    manifest: DocumentMut,
}

#[derive(Deserialize)]
struct Written {
    id: String,
    licence: String,
    source: String,
    hub: HubTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HubTable {
    repository: String,
    revision: String,
    graph: String,
    graph_sha256: Option<String>,
    tokenizer: String,
    tokenizer_sha256: Option<String>,
}

impl Recipe {
    /// The recipe of a model that this program knows.
    ///
    /// # Errors
    /// `InvalidField` with the names it does know.
    pub fn known(name: &str) -> Result<Self> {
        let found = KNOWN.iter().find(|(known, _)| *known == name);
        let (_, text) = found.ok_or_else(|| {
            let names = KNOWN.map(|(known, _)| known).join(", ");
            let problem = format!(
                "{name:?} is not known; known are {names}; for another model give --manifest FILE"
            );
            Error::invalid_field("NAME", problem)
        })?;
        Self::parse(text)
    }

    /// Reads a recipe.
    ///
    /// # Errors
    /// `InvalidField` on `--manifest` when a key is missing or names something outside its place.
    pub fn parse(text: &str) -> Result<Self> {
        let written: Written =
            toml::from_str(text).map_err(|e| invalid(format!("is no recipe: {e}")))?;
        let mut manifest: DocumentMut = text
            .parse()
            .map_err(|e| invalid(format!("is no TOML: {e}")))?;
        manifest.remove("hub");
        let hub = written.hub;
        check_names(&written.id, &hub)?;
        Ok(Self {
            id: written.id,
            licence: written.licence,
            source: written.source,
            repository: hub.repository,
            revision: hub.revision,
            graph: file(hub.graph, "model.onnx", hub.graph_sha256)?,
            tokenizer: file(hub.tokenizer, "tokenizer.json", hub.tokenizer_sha256)?,
            manifest,
        })
    }

    /// The same model at another revision, whose checksums the recipe doesn't know.
    ///
    /// # Errors
    /// `InvalidField` on `--revision` when it can't be one.
    pub fn at_revision(mut self, revision: &str) -> Result<Self> {
        if !is_revision(revision) {
            let problem = "must be a branch, a tag or a commit";
            return Err(Error::invalid_field("--revision", problem));
        }
        if self.revision != revision {
            self.revision = revision.to_owned();
            self.graph.sha256 = None;
            self.tokenizer.sha256 = None;
        }
        Ok(self)
    }

    /// The same model with a graph that must have this SHA-256.
    ///
    /// # Errors
    /// `InvalidField` on `--sha256` when it isn't one.
    pub fn with_graph_sha256(mut self, sha256: &str) -> Result<Self> {
        self.graph.sha256 =
            Some(digest(sha256).ok_or_else(|| {
                Error::invalid_field("--sha256", "must be 64 hexadecimal digits")
            })?);
        Ok(self)
    }

    /// The model's id, which becomes the folder's name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The licence of the weights.
    pub fn licence(&self) -> &str {
        &self.licence
    }

    /// Where the weights come from, as the recipe says.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The repository on the hub.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The branch, tag or commit.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// What is fetched.
    pub fn files(&self) -> [&RemoteFile; 2] {
        [&self.graph, &self.tokenizer]
    }

    /// Whether the file of this name must have another SHA-256 than this.
    pub fn wants_other(&self, name: &str, sha256: &str) -> bool {
        let mut pinned = (self.files().into_iter()).filter(|file| file.name == name);
        pinned.any(|file| (file.sha256.as_deref()).is_some_and(|wanted| wanted != sha256))
    }

    /// Whether the manifest brings values that somebody measured for its scores.
    pub fn is_calibrated(&self) -> bool {
        self.manifest.contains_key("calibration")
    }

    /// The `model.toml` without what only a pull needs.
    pub fn manifest(&self) -> String {
        self.manifest.to_string()
    }

    /// Whether a folder with this `source` was pulled at this revision, a branch's name or a commit.
    pub fn is_at(source: &str, revision: &str) -> bool {
        source.contains(&format!(" at {revision}, commit "))
            || source.contains(&format!(", commit {revision}: "))
    }

    /// The `model.toml` that also says which commit was fetched.
    pub fn manifest_at(&self, commit: &str) -> String {
        let mut manifest = self.manifest.clone();
        let source = format!(
            "{}; pulled from {} at {}, commit {commit}: {}",
            self.source, self.repository, self.revision, self.graph.path
        );
        manifest["source"] = toml_edit::value(source);
        manifest.to_string()
    }
}

fn file(path: String, name: &'static str, sha256: Option<String>) -> Result<RemoteFile> {
    let sha256 = match sha256 {
        None => None,
        Some(text) => Some(digest(&text).ok_or_else(|| {
            invalid(format!(
                "has a checksum for {name} that isn't 64 hexadecimal digits"
            ))
        })?),
    };
    Ok(RemoteFile { path, name, sha256 })
}

/// Names become paths here and on the hub's side: none may leave its place.
fn check_names(id: &str, hub: &HubTable) -> Result<()> {
    let plain = |text: &str| {
        let mut parts = Path::new(text).components();
        parts.all(|part| matches!(part, Component::Normal(_)))
            && text
                .chars()
                .all(|c| c.is_ascii_graphic() && !"?#%\\".contains(c))
            && !text.is_empty()
    };
    let checks = [
        ("id", plain(id) && !id.contains('/') && !id.starts_with('.')),
        ("hub.repository", plain(&hub.repository)),
        ("hub.revision", is_revision(&hub.revision)),
        ("hub.graph", plain(&hub.graph)),
        ("hub.tokenizer", plain(&hub.tokenizer)),
    ];
    match checks.into_iter().find(|(_, ok)| !ok) {
        Some((key, _)) => Err(invalid(format!("has a {key} that can't be used as a name"))),
        None => Ok(()),
    }
}

fn is_revision(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let parts = || text.split('/');
    text.chars().all(allowed) && parts().all(|part| !part.is_empty() && !part.starts_with('.'))
}

fn digest(text: &str) -> Option<String> {
    let fits = text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit());
    fits.then(|| text.to_ascii_lowercase())
}

fn invalid(problem: String) -> Error {
    Error::invalid_field("--manifest", problem)
}

#[cfg(test)]
mod tests;
