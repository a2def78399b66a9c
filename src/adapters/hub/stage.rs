//! Where a pull works: `.pull` inside the models' folder, so that the finished model takes its place by one rename.
//!
//! The models' folder itself is the lock: one pull at a time writes into it. What a killed pull left is swept by the
//! next one. Must not know the hub.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// Not a model's name: those don't begin with a dot.
const STAGE: &str = ".pull";

/// A folder that is gone when this is dropped.
#[derive(Debug)]
pub struct Stage {
    models: PathBuf,
    root: PathBuf,
    id: String,
    _lock: File,
}

impl Stage {
    /// Opens the stage for the model `id`; makes the models' folder when there is none.
    ///
    /// # Errors
    /// `Overloaded` while another pull writes into the folder, `InvalidField` on `models.dir` when it can't be used.
    pub fn open(models: &Path, id: &str) -> Result<Self> {
        let unusable = |e: io::Error| {
            let problem = format!("{} can't be written to", models.display());
            Error::invalid_field("models.dir", problem).caused_by(e)
        };
        std::fs::create_dir_all(models).map_err(unusable)?;
        let lock = File::open(models).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let problem = format!("another pull writes into {}", models.display());
                return Err(Error::new(ErrorKind::Overloaded, problem));
            }
            Err(TryLockError::Error(e)) => return Err(unusable(e)),
        }
        let stage = Self {
            root: models.join(STAGE),
            models: models.to_owned(),
            id: id.to_owned(),
            _lock: lock,
        };
        stage.sweep().map_err(unusable)?;
        std::fs::create_dir_all(stage.folder()).map_err(unusable)?;
        Ok(stage)
    }

    /// A folder of models with this one in it.
    pub fn dir(&self) -> &Path {
        &self.root
    }

    /// The folder of the model.
    pub fn folder(&self) -> PathBuf {
        self.root.join(&self.id)
    }

    /// Where the hub's client may keep what it likes.
    pub(super) fn cache(&self) -> PathBuf {
        self.root.join(".cache")
    }

    /// Writes a file of the model.
    ///
    /// # Errors
    /// `DependencyFailed` when the disk doesn't take it.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        std::fs::write(self.folder().join(name), text)
            .map_err(|e| Error::dependency(format!("{name} can't be written"), e))
    }

    /// Takes a file of the client's cache, whose name there is a link.
    pub(super) fn take(&self, cached: &Path, name: &str) -> Result<PathBuf> {
        let place = self.folder().join(name);
        std::fs::canonicalize(cached)
            .and_then(|bytes| std::fs::rename(bytes, &place))
            .map_err(|e| Error::dependency(format!("{name} can't be moved"), e))?;
        Ok(place)
    }

    /// Puts the model in its place; with `replace` instead of the one that is there.
    ///
    /// # Errors
    /// `DependencyFailed` when it can't be moved; what was there is there still.
    pub fn place(self, replace: bool) -> Result<PathBuf> {
        let target = self.models.join(&self.id);
        let failed = |e| Error::dependency(format!("{} can't be put", target.display()), e);
        self.settle().map_err(failed)?;
        let old = self.root.join(".replaced");
        let moves = replace && target.symlink_metadata().is_ok();
        if moves {
            std::fs::rename(&target, &old).map_err(failed)?;
        }
        if let Err(e) = std::fs::rename(self.folder(), &target) {
            if moves {
                std::fs::rename(&old, &target).map_err(failed)?;
            }
            return Err(failed(e));
        }
        File::open(&self.models)
            .and_then(|dir| dir.sync_all())
            .map_err(failed)?;
        Ok(target)
    }

    /// A model in its place is whole after a power cut, too.
    fn settle(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(self.folder())? {
            File::open(entry?.path())?.sync_all()?;
        }
        File::open(self.folder())?.sync_all()
    }

    fn sweep(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.root) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = self.sweep() {
            tracing::warn!(%error, folder = %self.root.display(), "could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(models: &Path, text: &str) -> Stage {
        let stage = Stage::open(models, "m").expect("a stage");
        stage.write("model.onnx", text).expect("written");
        stage
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).expect("a folder");
        let name = |e: io::Result<std::fs::DirEntry>| e.expect("an entry").file_name();
        entries
            .map(|e| name(e).to_string_lossy().into_owned())
            .collect()
    }

    fn content(models: &Path) -> String {
        std::fs::read_to_string(models.join("m/model.onnx")).expect("in place")
    }

    #[test]
    fn a_model_is_placed_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a folder");
        let models = dir.path().join("a/models");
        drop(staged(&models, "given up"));
        assert!(names(&models).is_empty());
        assert!(staged(&models, "one").place(false).is_ok());
        assert!(staged(&models, "two").place(false).is_err());
        assert_eq!(content(&models), "one");
        staged(&models, "three").place(true).expect("replaced");
        assert_eq!(content(&models), "three");
        assert_eq!(names(&models), ["m"]);
    }

    #[test]
    fn one_pull_at_a_time_and_leftovers_are_swept() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join(".pull/other")).expect("made");
        let stage = staged(dir.path(), "one");
        assert_eq!(names(stage.dir()), ["m"]);
        let error = Stage::open(dir.path(), "n").expect_err("busy");
        assert_eq!(error.kind(), ErrorKind::Overloaded);
        drop(stage);
        assert!(Stage::open(dir.path(), "n").is_ok());
    }
}
