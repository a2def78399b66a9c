//! Bodies too large for a message, kept elsewhere for a while.

use std::fmt;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::{BlobRef, TenantId};

/// Reads bodies that a job only names (claim check).
#[async_trait]
pub trait BlobStore: Send + Sync + fmt::Debug {
    /// The bytes of a blob of this tenant, exactly as long and with exactly the hash the reference says.
    ///
    /// # Errors
    /// `InvalidField` on `blob.bucket` for a bucket that is not the tenant's, on `blob.size` or `blob.sha256` for other
    /// content than promised; `NotFound` when it is missing or has expired; `DependencyFailed` when the store can't be
    /// reached.
    async fn fetch(&self, tenant: &TenantId, blob: &BlobRef) -> Result<Vec<u8>>;
}
