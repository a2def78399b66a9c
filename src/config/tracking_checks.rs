//! What the keys of tracking must hold together. Must not know how events travel.

use super::sections::{Config, Guarantee};
use crate::error::{Error, Result};

/// Events that a worker can be told to keep in memory.
const MOST_BUFFERED: usize = 1_000_000;

/// Checks `[tracking]`.
///
/// # Errors
/// `InvalidField` naming the key.
pub(super) fn tracking(config: &Config) -> Result<()> {
    let tracking = &config.tracking;
    let checks = [
        (
            "tracking.guarantee",
            tracking.enabled || tracking.guarantee == Guarantee::BestEffort,
            "can't be required while tracking.enabled is false",
        ),
        (
            "tracking.buffer",
            (1..=MOST_BUFFERED).contains(&tracking.buffer),
            "must be 1 to 1000000",
        ),
        (
            "tracking.hash_key",
            !tracking.hash_queries || !tracking.hash_key.expose().is_empty(),
            "must be set, because tracking.hash_queries is true",
        ),
    ];
    match checks.into_iter().find(|(_, ok, _)| !ok) {
        Some((key, _, problem)) => Err(Error::invalid_field(key, problem)),
        None => Ok(()),
    }
}
