//! Loading the ONNX Runtime library, once per process.
//!
//! Must not know models.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;
use ort::logging::LogLevel;

use crate::error::{Error, Result};

/// ONNX Runtime allows one environment per process. It is kept for ever: the library's own static destructors must
/// not find sessions of a released environment.
static LOADED: Mutex<Option<OnnxRuntime>> = Mutex::new(None);

/// The loaded library with its environment. Cheap to clone.
#[derive(Clone)]
pub struct OnnxRuntime {
    library: PathBuf,
    environment: Environment,
}

impl OnnxRuntime {
    /// Loads `libonnxruntime.so`. Again with the same file gives the same runtime.
    ///
    /// # Errors
    /// `InvalidField` on `onnx.library` when the file is missing, is no ONNX Runtime of a fitting version, or another
    /// one is already loaded.
    pub fn load(library: &Path) -> Result<Self> {
        let library = library.canonicalize().map_err(|error| {
            invalid(format!(
                "{}: {error}; run `make setup` or set onnx.library to libonnxruntime.so",
                library.display()
            ))
        })?;
        // Held while loading: concurrent creation of environments crashes in native code.
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*loaded {
            Some(runtime) if runtime.library == library => Ok(runtime.clone()),
            Some(runtime) => Err(invalid(format!(
                "{} is already loaded in this process; {} can't be loaded too",
                runtime.library.display(),
                library.display()
            ))),
            None => Ok(loaded.insert(Self::load_first(library)?).clone()),
        }
    }

    fn load_first(library: PathBuf) -> Result<Self> {
        let unusable = || {
            invalid(format!(
                "{} is no usable ONNX Runtime (1.{} or newer); run `make setup` or set onnx.library",
                library.display(),
                ort::MINOR_VERSION
            ))
        };
        let environment = ort::init_from(&library)
            .map_err(|error| unusable().caused_by(error))?
            .with_name("ragbus")
            .with_telemetry(false)
            .build()
            .map_err(|error| unusable().caused_by(error))?;
        environment.set_log_level(LogLevel::Warning);
        tracing::info!(library = %library.display(), "loaded onnx runtime");
        Ok(Self {
            library,
            environment,
        })
    }

    /// The file it was loaded from.
    pub fn library(&self) -> &Path {
        &self.library
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl fmt::Debug for OnnxRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnnxRuntime")
            .field("library", &self.library)
            .finish_non_exhaustive()
    }
}

fn invalid(problem: String) -> Error {
    Error::invalid_field("onnx.library", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_library_is_refused_and_says_what_to_do() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [file.path(), Path::new("/absent/libonnxruntime.so")] {
            let error = OnnxRuntime::load(path).unwrap_err();
            assert_eq!(error.field(), Some("onnx.library"));
            assert!(
                error
                    .message()
                    .contains("run `make setup` or set onnx.library")
            );
        }
    }
}
