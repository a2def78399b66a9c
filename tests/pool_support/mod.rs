//! The real runtime and models for tests of the inference pool.
//!
//! Needs `make setup`; `RAGBUS_TEST_ROOT` names another folder than `.ragbus`.

use std::path::{Path, PathBuf};

use ragbus::adapters::onnx::{InferenceConfig, InferencePool, ModelFolder, OnnxRuntime};

pub fn root() -> PathBuf {
    let root = std::env::var_os("RAGBUS_TEST_ROOT").map(PathBuf::from);
    let root = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".ragbus"));
    assert!(
        root.join("lib").is_dir(),
        "{} is not set up: run `make setup`",
        root.display()
    );
    root
}

pub fn runtime() -> OnnxRuntime {
    OnnxRuntime::load(&root().join("lib/libonnxruntime.so")).expect("run `make setup`")
}

pub fn folder(id: &str) -> ModelFolder {
    ModelFolder::open(&root().join("models"), id).expect("run `make setup`")
}

pub fn start(config: &InferenceConfig, models: &[&str]) -> InferencePool {
    let folders = models.iter().map(|id| folder(id)).collect();
    InferencePool::start(&runtime(), config, folders).expect("the pool starts")
}

pub fn threads(threads: usize) -> InferenceConfig {
    InferenceConfig {
        threads: Some(threads),
        ..InferenceConfig::default()
    }
}
