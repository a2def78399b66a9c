//! Takes up rebuilds of corpora, as part of the ingest role. Must not know how one is carried out.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::runtime::{LEFT_BEHIND_EVERY, WorkerParts, millis};
use crate::ingest::{RebuildParts, Rebuilder};
use crate::transport::nats::ACK_WAIT;

/// What rebuilds are carried out with.
pub(super) fn rebuilder(parts: &WorkerParts) -> Rebuilder {
    Rebuilder::new(RebuildParts {
        rebuilds: Arc::clone(&parts.rebuilds),
        documents: Arc::clone(&parts.registry),
        store: Arc::clone(&parts.store),
        models: parts.sets.clone(),
        tenancy: parts.tenancy,
        owner: parts.worker.clone(),
        // Checked above to be longer than the store's limit for a write.
        lease: ACK_WAIT,
        grace: millis(parts.timeouts_ms.1),
    })
}

/// Takes up rebuilds: those begun here at once, those that another worker left behind when it looks.
pub(super) async fn keep(rebuilder: Rebuilder, begun: Arc<Notify>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        if let Err(error) = rebuilder.work(&|| stop.is_cancelled()).await {
            tracing::debug!(error = %error.chain(), "rebuilds can't be listed");
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = begun.notified() => {}
            () = tokio::time::sleep(LEFT_BEHIND_EVERY) => {}
        }
    }
}
