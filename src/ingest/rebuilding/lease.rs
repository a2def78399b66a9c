//! The right to write into a generation that is being built, as this process sees it.
//!
//! A write may be applied late, so none may begin unless it must have landed before the right ends: whoever takes over then
//! never meets it. Must not know the registry.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, Result};

/// Until when this process may write. The clock of the database decides; this is never later than that.
#[derive(Debug)]
pub(super) struct Lease {
    until: Mutex<Instant>,
}

impl Lease {
    /// Asked for at `asked`, granted for `length` by a database that can only have read its clock later.
    pub(super) fn granted(asked: Instant, length: Duration) -> Self {
        Self {
            until: Mutex::new(asked + length),
        }
    }

    /// Granted again.
    pub(super) fn renewed(&self, asked: Instant, length: Duration) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = asked + length;
    }

    /// What is left of it.
    pub(super) fn left(&self) -> Duration {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.saturating_duration_since(Instant::now())
    }

    /// Whether a write that may be applied `limit` late may begin now.
    ///
    /// # Errors
    /// `DependencyFailed` when it may not.
    pub(super) fn allows(&self, limit: Duration) -> Result<()> {
        if self.left() > limit {
            return Ok(());
        }
        Err(Error::dependency(
            "the right to write the new generation could not be renewed in time",
            "the registry did not answer",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_could_land_after_the_lease_may_not_begin() {
        let lease = Lease::granted(Instant::now(), Duration::from_secs(30));
        assert!(lease.allows(Duration::from_secs(9)).is_ok());
        assert!(lease.allows(Duration::from_secs(31)).is_err());
        lease.renewed(Instant::now(), Duration::ZERO);
        assert!(lease.allows(Duration::ZERO).is_err());
    }
}
