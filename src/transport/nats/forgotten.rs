//! What NATS keeps of a tenant, and how an operator removes it: jobs that wait, results, dead letters, events, large bodies.
//! Needs rights that workers don't have.

use async_nats::jetstream::context::GetStreamErrorKind;
use futures::StreamExt;

use super::blobs::bucket;
use super::connect::Connection;
use super::topology::{DEAD, INGEST, RESULT};
use crate::error::{Error, Result};
use crate::model::TenantId;

const TRACKING: &str = "RAG_TRACKING";

/// Messages that were removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemovedMessages {
    /// Jobs that waited.
    pub jobs: u64,
    /// Results.
    pub results: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Retrievals that were not in the tracker yet.
    pub events: u64,
    /// Bodies in the tenant's bucket.
    pub blobs: u64,
}

/// Removes everything of a tenant's. What a worker still has in work may leave something: call it again after that.
///
/// # Errors
/// `DependencyFailed` with what the server said, for example that the right is missing.
pub async fn remove_messages(
    connection: &Connection,
    tenant: &TenantId,
) -> Result<RemovedMessages> {
    let purge = async |stream: &str, subject: String| purged(connection, stream, subject).await;
    Ok(RemovedMessages {
        jobs: purge(INGEST, format!("rag.work.*.{tenant}")).await?,
        results: purge(RESULT, format!("rag.result.{tenant}.*")).await?,
        dead_letters: purge(DEAD, format!("rag.dlq.{tenant}")).await?,
        events: purge(TRACKING, format!("rag.tracking.{tenant}")).await?,
        blobs: blobs(connection, tenant).await?,
    })
}

async fn purged(connection: &Connection, stream: &str, subject: String) -> Result<u64> {
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| {
        Error::dependency(format!("stream {stream} can't be purged"), e)
    };
    let found = match connection.jetstream.get_stream(stream).await {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), GetStreamErrorKind::JetStream(_)) => return Ok(0),
        Err(error) => return Err(failed(error.into())),
    };
    let purged = found.purge().filter(subject).await;
    Ok(purged.map_err(|e| failed(e.into()))?.purged)
}

async fn blobs(connection: &Connection, tenant: &TenantId) -> Result<u64> {
    let name = bucket(tenant);
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| {
        Error::dependency(format!("bucket {name} can't be removed"), e)
    };
    let jetstream = &connection.jetstream;
    let Ok(store) = jetstream.get_object_store(&name).await else {
        return Ok(0);
    };
    let listed = store.list().await.map_err(|e| failed(e.into()))?;
    let count = listed.count().await as u64;
    let deleted = jetstream.delete_object_store(&name).await;
    deleted.map_err(|e| failed(e.into()))?;
    Ok(count)
}
