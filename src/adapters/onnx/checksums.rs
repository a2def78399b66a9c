//! `model.sha256` of a pulled model folder: what its files were when they were put there.
//!
//! Lines are `hex  file`, so `sha256sum -c model.sha256` reads them too. `model.toml` is not among them: it is the
//! operator's to change. Folders that were made another way have no record, and nothing to check.
//!
//! Must not know where the files come from.

use std::collections::BTreeMap;

use super::manifest::{GRAPH, ModelFolder, TOKENIZER};
use crate::adapters::file_digest::sha256_hex;
use crate::error::{Error, Result};

const RECORD: &str = "model.sha256";

/// File names with their SHA-256 in lower-case hexadecimal.
pub type Checksums = BTreeMap<String, String>;

impl ModelFolder {
    /// Writes down what the graph and the tokenizer are now.
    ///
    /// # Errors
    /// `DependencyFailed` when a file can't be read or written.
    pub fn record_checksums(&self) -> Result<Checksums> {
        let mut checksums = Checksums::new();
        let mut text = String::new();
        for file in [GRAPH, TOKENIZER] {
            let digest = self.digest(file)?;
            text.push_str(&format!("{digest}  {file}\n"));
            checksums.insert(file.to_owned(), digest);
        }
        let path = self.folder().join(RECORD);
        std::fs::write(&path, text)
            .map_err(|e| Error::dependency(format!("{} can't be written", path.display()), e))?;
        Ok(checksums)
    }

    /// Compares the files with the record; `None` when there is no record.
    ///
    /// # Errors
    /// `InvalidField` on `models.dir` when a file isn't what the record says, or the record can't be read.
    pub fn check_checksums(&self) -> Result<Option<Checksums>> {
        let path = self.folder().join(RECORD);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.changed(format!("{RECORD} can't be read")).caused_by(e)),
        };
        let recorded = parse(&text).map_err(|problem| self.changed(problem))?;
        for (file, expected) in &recorded {
            let actual = self.digest(file)?;
            if actual != *expected {
                return Err(self.changed(format!(
                    "{file} has sha256 {actual}, {RECORD} says {expected}"
                )));
            }
        }
        Ok(Some(recorded))
    }

    fn digest(&self, file: &str) -> Result<String> {
        let path = self.folder().join(file);
        sha256_hex(&path)
            .map_err(|e| Error::dependency(format!("{} can't be read", path.display()), e))
    }

    fn changed(&self, problem: String) -> Error {
        Error::invalid_field(
            "models.dir",
            format!(
                "has a changed model {}: {problem}; run `ragbus models pull {} --force`",
                self.folder().display(),
                self.id()
            ),
        )
    }
}

/// A record must speak of both files: one without a line would go unchecked.
fn parse(text: &str) -> Result<Checksums, String> {
    let mut checksums = Checksums::new();
    for line in text.lines() {
        let Some((digest, file)) = line.split_once("  ") else {
            return Err(format!("{RECORD} has a line that isn't \"sha256  file\""));
        };
        if ![GRAPH, TOKENIZER].contains(&file) {
            return Err(format!("{RECORD} names {file:?}"));
        }
        checksums.insert(file.to_owned(), digest.to_ascii_lowercase());
    }
    match [GRAPH, TOKENIZER]
        .iter()
        .find(|file| !checksums.contains_key(**file))
    {
        Some(file) => Err(format!("{RECORD} has no line for {file}")),
        None => Ok(checksums),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const MANIFEST: &str = "id = \"m\"\ntask = \"cross-encoder\"\ndimension = 1\nmax_tokens = 16\noutput = \"o\"\n\
        licence = \"MIT\"\nsource = \"a test\"\nbatch_invariant = true\n[cross_encoder]\nactivation = \"sigmoid\"\n";

    fn folder(dir: &Path) -> ModelFolder {
        let folder = dir.join("m");
        std::fs::create_dir(&folder).expect("made");
        for (file, text) in [
            (GRAPH, "graph"),
            (TOKENIZER, "words"),
            ("model.toml", MANIFEST),
        ] {
            std::fs::write(folder.join(file), text).expect("written");
        }
        ModelFolder::open(dir, "m").expect("a model")
    }

    #[test]
    fn a_record_is_kept_and_a_changed_file_is_noticed() {
        let dir = tempfile::tempdir().expect("a folder");
        let model = folder(dir.path());
        assert_eq!(model.check_checksums().expect("nothing to check"), None);
        let recorded = model.record_checksums().expect("written");
        assert_eq!(recorded.len(), 2);
        assert_eq!(model.check_checksums().expect("intact"), Some(recorded));
        std::fs::write(dir.path().join("m").join(GRAPH), "graph!").expect("written");
        let error = model.check_checksums().expect_err("changed");
        assert_eq!(error.field(), Some("models.dir"));
        for part in [
            "model.onnx has sha256",
            "model.sha256 says",
            "models pull m --force",
        ] {
            assert!(error.message().contains(part), "{}", error.message());
        }
    }

    #[test]
    fn a_record_that_leaves_something_out_is_a_fault() {
        for (text, expected) in [
            ("", "no line for model.onnx"),
            ("00  model.onnx\n", "no line for tokenizer.json"),
            ("00  ../model.onnx\n", "names \"../model.onnx\""),
            ("00 model.onnx\n", "isn't \"sha256  file\""),
        ] {
            let problem = parse(text).expect_err(text);
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
