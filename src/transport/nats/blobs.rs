//! Large bodies in an object-store bucket of the tenant's own: put by callers, read by workers.
//!
//! All chunks of a bucket share one subject tree, so nothing inside a bucket can be kept apart by permissions: a bucket
//! belongs to one tenant, by its name, and a worker reads no other one for it.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::ObjectStoreError;
use async_nats::jetstream::object_store::{Config, InfoErrorKind, ObjectInfo, ObjectStore};
use async_nats::jetstream::stream::StorageType;
use async_trait::async_trait;
use tokio::io::AsyncReadExt;
use uuid::Uuid;

use super::connect::Connection;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::sha256_hex;
use crate::model::{BlobRef, TenantId};
use crate::spi::BlobStore;

/// How long a body waits for its job.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of one tenant's bodies that wait at most. A server sets this much aside for each bucket.
const MAX_BYTES: i64 = 512 * 1024 * 1024;
/// A body that takes longer to read is given up and tried again.
const READING: Duration = Duration::from_secs(60);

/// The tenant's bucket.
pub fn bucket(tenant: &TenantId) -> String {
    format!("RAG_BLOB_{tenant}")
}

/// Creates the tenant's bucket, if need be. Needs rights that workers don't have. Returns whether it was missing.
///
/// # Errors
/// `DependencyFailed` with what the server said.
pub async fn create_bucket(
    connection: &Connection,
    tenant: &TenantId,
    replicas: usize,
) -> Result<bool> {
    if open(connection, tenant).await?.is_some() {
        return Ok(false);
    }
    create(connection, tenant, replicas).await.map(|_| true)
}

async fn create(
    connection: &Connection,
    tenant: &TenantId,
    replicas: usize,
) -> Result<ObjectStore> {
    let config = Config {
        bucket: bucket(tenant),
        description: Some("bodies too large for a message, until their job is done".to_owned()),
        max_age: MAX_AGE,
        max_bytes: MAX_BYTES,
        storage: StorageType::File,
        num_replicas: replicas,
        ..Config::default()
    };
    let created = connection.jetstream.create_object_store(config).await;
    created.map_err(|e| Error::dependency("the bucket for large bodies can't be created", e))
}

/// Puts a body into the tenant's bucket, for a job that names it. Creates the bucket where the caller may.
///
/// # Errors
/// `NotFound` when the tenant has no bucket and the caller must not create one; `DependencyFailed`.
pub(super) async fn put(
    connection: &Connection,
    tenant: &TenantId,
    body: &[u8],
) -> Result<BlobRef> {
    let missing = |e: Error| {
        let advice = format!(
            "the body is too large for a message, and bucket {} is missing: an operator runs `ragbus setup --tenant {tenant}`",
            bucket(tenant)
        );
        Error::new(ErrorKind::NotFound, advice).caused_by(e)
    };
    let store = match open(connection, tenant).await? {
        Some(store) => store,
        None => create(connection, tenant, 1).await.map_err(missing)?,
    };
    let name = Uuid::new_v4().simple().to_string();
    let mut reader = body;
    store
        .put(name.as_str(), &mut reader)
        .await
        .map_err(|e| Error::dependency("the body can't be put into its bucket", e))?;
    Ok(BlobRef {
        bucket: bucket(tenant),
        name,
        sha256: sha256_hex(body),
        size: body.len() as u64,
    })
}

/// The tenant's bucket; `None` when it is missing.
async fn open(connection: &Connection, tenant: &TenantId) -> Result<Option<ObjectStore>> {
    match connection.jetstream.get_object_store(bucket(tenant)).await {
        Ok(store) => Ok(Some(store)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(Error::dependency(
            "the bucket for large bodies can't be opened",
            error,
        )),
    }
}

fn is_missing(error: &ObjectStoreError) -> bool {
    use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
    let source = std::error::Error::source(error).and_then(|e| e.downcast_ref::<GetStreamError>());
    source.is_some_and(|e| match e.kind() {
        GetStreamErrorKind::JetStream(error) => error.error_code() == ErrorCode::STREAM_NOT_FOUND,
        _ => false,
    })
}

/// Reads from tenants' buckets.
#[derive(Debug, Clone)]
pub struct NatsBlobStore {
    connection: Connection,
}

impl NatsBlobStore {
    /// Over a worker's connection.
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }

    async fn read(&self, store: &ObjectStore, blob: &BlobRef) -> Result<Vec<u8>> {
        let info = store.info(&blob.name).await.map_err(|e| match e.kind() {
            InfoErrorKind::NotFound => gone(),
            InfoErrorKind::InvalidName => Error::invalid_field("blob.name", "is no object's name"),
            InfoErrorKind::Other | InfoErrorKind::TimedOut => unreadable(e),
        })?;
        check(&info, blob)?;
        let object = store.get(&blob.name).await.map_err(unreadable)?;
        let mut body = Vec::with_capacity(usize::try_from(blob.size).unwrap_or(0));
        // One byte more than promised shows that it is another object by now.
        let mut limited = object.take(blob.size + 1);
        limited.read_to_end(&mut body).await.map_err(unreadable)?;
        if body.len() as u64 != blob.size {
            return Err(Error::invalid_field(
                "blob.size",
                "is not the object's size",
            ));
        }
        Ok(body)
    }
}

fn check(info: &ObjectInfo, blob: &BlobRef) -> Result<()> {
    if info.deleted {
        return Err(gone());
    }
    // A link leads into another bucket, which may be another tenant's.
    if info
        .options
        .as_ref()
        .is_some_and(|options| options.link.is_some())
    {
        return Err(Error::invalid_field("blob.name", "must not be a link"));
    }
    if info.size as u64 != blob.size {
        return Err(Error::invalid_field(
            "blob.size",
            "is not the object's size",
        ));
    }
    Ok(())
}

fn gone() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the body is missing from its bucket, or has expired",
    )
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::dependency("the body can't be read from its bucket", error)
}

#[async_trait]
impl BlobStore for NatsBlobStore {
    #[tracing::instrument(target = "ragbus", name = "fetch body", skip_all)]
    async fn fetch(&self, tenant: &TenantId, blob: &BlobRef) -> Result<Vec<u8>> {
        if blob.bucket != bucket(tenant) {
            return Err(Error::invalid_field(
                "blob.bucket",
                "must be RAG_BLOB_ and the tenant's name",
            ));
        }
        let store = open(&self.connection, tenant).await?.ok_or_else(gone)?;
        let reading = tokio::time::timeout(READING, self.read(&store, blob));
        let body = reading
            .await
            .map_err(|e| Error::dependency("the body takes too long to read", e))??;
        let hash = sha256_hex(&body);
        if hash != blob.sha256 {
            return Err(Error::invalid_field(
                "blob.sha256",
                "is not the object's hash",
            ));
        }
        Ok(body)
    }
}
