//! How large the inference pool is, and within which bounds.
//!
//! Must not know models' contents or threads.

use super::manifest::ModelFolder;
use crate::error::{Error, Result};

/// How large the pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferenceConfig {
    /// Threads; `None` = as many as the process may use (affinity and cgroup quota). Each holds every model.
    pub threads: Option<usize>,
    /// Padded tokens of one model call. Bounds how long interactive work waits for bulk work.
    pub batch_tokens: usize,
    /// Interactive texts that may wait; beyond, a call is refused.
    pub interactive_capacity: usize,
    /// Bulk texts that may wait; beyond, a call waits.
    pub bulk_capacity: usize,
}

impl Default for InferenceConfig {
    fn default() -> Self {
        Self {
            threads: None,
            // Measured: throughput is level from 128 to 1024 and lower beyond, and a call takes its tokens' time.
            batch_tokens: 256,
            // Pairs come by hundreds: room for some requests of `inference.max_pairs_per_request`.
            interactive_capacity: 2048,
            bulk_capacity: 256,
        }
    }
}

/// Checks the sizes, and that no model is named twice.
///
/// # Errors
/// `InvalidField` on the size or on `models.dir`.
pub(super) fn check(config: &InferenceConfig, folders: &[ModelFolder]) -> Result<()> {
    let sizes = [
        ("inference.threads", config.threads.unwrap_or(1)),
        ("inference.batch_tokens", config.batch_tokens),
        (
            "inference.interactive_capacity",
            config.interactive_capacity,
        ),
        ("inference.bulk_capacity", config.bulk_capacity),
    ];
    for (field, size) in sizes {
        // The upper end is far from use, and keeps sums and semaphores in range.
        if !(1..=1_000_000).contains(&size) {
            return Err(Error::invalid_field(field, "must be from 1 to 1000000"));
        }
    }
    for (index, folder) in folders.iter().enumerate() {
        if folders[..index]
            .iter()
            .any(|other| other.id() == folder.id())
        {
            return Err(folder.fault("it is loaded twice"));
        }
    }
    Ok(())
}

/// What the process may use: honours affinity and the cgroup's quota, unlike ONNX Runtime's own default.
pub(super) fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
