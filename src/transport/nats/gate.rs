//! Pauses pulling while a dependency is down. Must not know which dependency.

use tokio::sync::watch;

/// A gate that many wait at and anyone can close.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    open: watch::Sender<bool>,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self {
            open: watch::Sender::new(true),
        }
    }

    /// Closes the gate; `true` when it was open.
    pub(super) fn close(&self) -> bool {
        self.open.send_replace(false)
    }

    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until the gate is open.
    pub(super) async fn passed(&self) {
        let mut open = self.open.subscribe();
        // The sender lives as long as self: waiting can't fail.
        let _ = open.wait_for(|open| *open).await;
    }
}
