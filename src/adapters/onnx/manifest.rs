//! What a model folder says about its model: `model.toml` beside `model.onnx` and `tokenizer.json`.
//!
//! Must not know ONNX Runtime or the tokenizer library: files are only checked to exist here.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::manifest_file::Manifest;
use crate::error::{Error, Result};
use crate::model::Calibrations;
use crate::spi::Role;

const MANIFEST: &str = "model.toml";
pub(super) const GRAPH: &str = "model.onnx";
pub(super) const TOKENIZER: &str = "tokenizer.json";

/// What a model does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Task {
    /// One text to one dense vector.
    Dense {
        /// How token vectors become one vector, when the graph gives `[batch, tokens, dim]`.
        pooling: DensePooling,
        /// Whether the graph's output has length 1 already.
        normalized: bool,
    },
    /// One text to weights over the vocabulary.
    Sparse {
        /// Where scores become weights.
        activation: SparseActivation,
        /// Weights at or below it are dropped.
        threshold: f32,
    },
    /// Two texts to one raw score.
    CrossEncoder {
        /// What the graph gives.
        activation: PairActivation,
    },
}

impl Task {
    /// The task as `model.toml` names it.
    pub const fn name(self) -> &'static str {
        match self {
            Task::Dense { .. } => "dense",
            Task::Sparse { .. } => "sparse",
            Task::CrossEncoder { .. } => "cross-encoder",
        }
    }
}

/// How token vectors become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DensePooling {
    /// The mean over the text's tokens, special tokens included.
    Mean,
    /// The first token's vector.
    Cls,
}

/// Where a sparse model's scores become weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SparseActivation {
    /// The graph gives weights.
    InGraph,
    /// The graph gives scores; a weight is log(1 + max(0, score)).
    Log1pRelu,
}

/// What a cross-encoder's graph gives. A logit is what everything else works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairActivation {
    /// The graph gives a logit, to which a sigmoid would give a probability.
    Sigmoid,
    /// The graph gives a probability; the logit is its log-odds.
    InGraph,
}

/// A model folder whose manifest was read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFolder {
    folder: PathBuf,
    id: String,
    task: Task,
    dimension: u32,
    max_tokens: u32,
    query_prefix: String,
    document_prefix: String,
    output: String,
    licence: String,
    source: String,
    batch_invariant: bool,
    calibrations: Calibrations,
}

impl ModelFolder {
    /// Reads the folder `id` under `models_dir`.
    ///
    /// # Errors
    /// `InvalidField` on `models.dir` when the folder, a file or a key of its manifest is missing or not allowed.
    pub fn open(models_dir: &Path, id: &str) -> Result<Self> {
        let plain = !id.is_empty() && !id.starts_with('.') && !id.contains(['/', '\\']);
        if !plain {
            return Err(invalid(format!(
                "has no model {id:?}: an id is a folder's name"
            )));
        }
        let folder = models_dir.join(id);
        for file in [MANIFEST, GRAPH, TOKENIZER] {
            if !folder.join(file).is_file() {
                return Err(invalid(format!(
                    "has no {}; run `make setup` or set models.dir",
                    folder.join(file).display()
                )));
            }
        }
        let path = folder.join(MANIFEST);
        let wrong = |problem: String| invalid(format!("has a bad {}: {problem}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let manifest: Manifest = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        Self::checked(manifest, folder, id).map_err(wrong)
    }

    /// Whether `text` would be a manifest of the model `id`, before there is a folder with its files.
    ///
    /// # Errors
    /// `InvalidField` on `model.toml` when a key of it is missing or not allowed.
    pub fn check_manifest(text: &str, id: &str) -> Result<()> {
        toml::from_str::<Manifest>(text)
            .map_err(|error| error.to_string())
            .and_then(|manifest| Self::checked(manifest, PathBuf::new(), id))
            .map(|_: Self| ())
            .map_err(|problem| Error::invalid_field("model.toml", format!("is bad: {problem}")))
    }

    fn checked(manifest: Manifest, folder: PathBuf, id: &str) -> Result<Self, String> {
        if manifest.id != id {
            return Err(format!(
                "id is {:?}, the folder's name is {id:?}",
                manifest.id
            ));
        }
        Ok(Self {
            folder,
            task: manifest.task()?,
            calibrations: manifest.calibrations()?,
            id: manifest.id,
            dimension: manifest.dimension,
            max_tokens: manifest.max_tokens,
            query_prefix: manifest.query_prefix,
            document_prefix: manifest.document_prefix,
            output: manifest.output,
            licence: manifest.licence,
            source: manifest.source,
            batch_invariant: manifest.batch_invariant,
        })
    }

    /// The model's id, which is the folder's name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the model does.
    pub fn task(&self) -> Task {
        self.task
    }

    /// Width of the output: dense dimension, vocabulary size, 1 for a score.
    pub fn dimension(&self) -> u32 {
        self.dimension
    }

    /// Longest input in tokens, special tokens included.
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens
    }

    /// What goes before a text.
    pub fn prefix(&self, role: Role) -> &str {
        match role {
            Role::Query => &self.query_prefix,
            Role::Document => &self.document_prefix,
        }
    }

    /// The name of the graph's output.
    pub fn output(&self) -> &str {
        &self.output
    }

    /// The licence of the weights.
    pub fn licence(&self) -> &str {
        &self.licence
    }

    /// Where the weights come from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether a text's result is independent of the texts it is run with. If not, each text runs alone.
    pub fn batch_invariant(&self) -> bool {
        self.batch_invariant
    }

    /// How a cross-encoder's raw outputs are read; conservative guesses where its manifest has no measured ones.
    pub fn calibrations(&self) -> &Calibrations {
        &self.calibrations
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn graph(&self) -> PathBuf {
        self.folder.join(GRAPH)
    }

    pub(super) fn tokenizer(&self) -> PathBuf {
        self.folder.join(TOKENIZER)
    }

    /// A fault of this folder, with what can be done.
    pub(super) fn fault(&self, problem: impl std::fmt::Display) -> Error {
        invalid(format!(
            "has a bad model {}: {problem}; run `make setup` or set models.dir",
            self.folder.display()
        ))
    }
}

fn invalid(problem: String) -> Error {
    Error::invalid_field("models.dir", problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CorpusName, CorpusRef, TenantId};

    const DENSE: &str = r#"
id = "m"
task = "dense"
dimension = 4
max_tokens = 16
pooling = "mean"
normalized = true
query_prefix = "query: "
output = "embedding"
licence = "MIT"
source = "made by a test"
batch_invariant = true
"#;

    const PAIR: &str = r#"
id = "m"
task = "cross-encoder"
dimension = 1
max_tokens = 16
output = "logits"
licence = "MIT"
source = "made by a test"
batch_invariant = true
[cross_encoder]
activation = "sigmoid"
"#;

    fn open(manifest: &str) -> Result<ModelFolder> {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("m");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(GRAPH), "").unwrap();
        std::fs::write(folder.join(TOKENIZER), "").unwrap();
        std::fs::write(folder.join(MANIFEST), manifest).unwrap();
        ModelFolder::open(dir.path(), "m")
    }

    #[test]
    fn a_manifest_is_read_with_its_prefixes() {
        let folder = open(DENSE).unwrap();
        assert_eq!(folder.id(), "m");
        assert_eq!(folder.prefix(Role::Query), "query: ");
        assert_eq!(folder.prefix(Role::Document), "");
        assert!(matches!(
            folder.task(),
            Task::Dense {
                normalized: true,
                ..
            }
        ));
    }

    #[test]
    fn a_cross_encoder_is_read_with_its_calibrations() {
        let corpus = CorpusRef::new(
            TenantId::mint("acme").unwrap(),
            CorpusName::new("docs").unwrap(),
        );
        let folder = open(PAIR).unwrap();
        let activation = PairActivation::Sigmoid;
        assert_eq!(folder.task(), Task::CrossEncoder { activation });
        assert!(!folder.calibrations().of(&corpus).is_measured());
        let table =
            "[calibration]\nid = \"c1\"\nscale = 2\nshift = -1.5\ncorrect = 0.7\nincorrect = 0.2\n";
        let folder = open(&format!("{PAIR}{table}")).unwrap();
        assert_eq!(folder.calibrations().of(&corpus).id, "c1");
    }

    #[test]
    fn a_bad_manifest_is_refused_and_says_why() {
        let sparse = DENSE.replace("\"dense\"", "\"sparse\"");
        let cases = [
            (format!("colour = 1\n{DENSE}"), "unknown field `colour`"),
            (
                DENSE.replace("id = \"m\"", "id = \"n\""),
                "the folder's name is \"m\"",
            ),
            (DENSE.replace("= 4", "= 0"), "at least 1"),
            (
                DENSE.replace("dimension = 4\n", ""),
                "missing field `dimension`",
            ),
            (DENSE.replace("\"mean\"", "\"max\""), "\"mean\" or \"cls\""),
            (
                format!("{DENSE}[sparse]\nactivation = \"in-graph\"\nthreshold = 0.0"),
                "no [sparse]",
            ),
            (sparse.clone(), "needs a [sparse]"),
            (
                format!("{sparse}[sparse]\nactivation = \"in-graph\"\nthreshold = 0.0"),
                "is \"max\"",
            ),
            (
                DENSE.replace("pooling = \"mean\"\n", ""),
                "needs pooling and normalized",
            ),
            (
                DENSE.replace("\"dense\"", "\"cross-encoder\""),
                "needs a [cross_encoder]",
            ),
            (format!("{PAIR}colour = 1"), "unknown field `colour`"),
            (
                PAIR.replace("dimension = 1", "dimension = 2"),
                "dimension of a cross-encoder is 1",
            ),
            (
                format!("pooling = \"cls\"\n{PAIR}"),
                "no pooling, normalized",
            ),
            (PAIR.replace("sigmoid", "softmax"), "unknown variant"),
            (
                format!("{PAIR}[sparse]\nactivation = \"in-graph\"\nthreshold = 0.0"),
                "or [sparse]",
            ),
            (
                format!("{DENSE}[cross_encoder]\nactivation = \"sigmoid\""),
                "only a cross-encoder",
            ),
            (
                format!("{DENSE}[calibration]\nid = \"c\""),
                "only a cross-encoder",
            ),
            (
                format!("{PAIR}[calibration]\nid = \"c\""),
                "missing field `scale`",
            ),
        ];
        for (manifest, expected) in cases {
            let error = open(&manifest).unwrap_err();
            assert_eq!(error.field(), Some("models.dir"));
            assert!(error.message().contains(expected), "{}", error.message());
        }
    }

    #[test]
    fn a_missing_folder_says_how_to_get_it() {
        let dir = tempfile::tempdir().unwrap();
        let error = ModelFolder::open(dir.path(), "absent").unwrap_err();
        assert!(
            error
                .message()
                .contains("run `make setup` or set models.dir")
        );
        for id in ["", ".", "..", "../m", "a/b", "a\\b"] {
            assert!(ModelFolder::open(dir.path(), id).is_err(), "{id:?}");
        }
    }
}
