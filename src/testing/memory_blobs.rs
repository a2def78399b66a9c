//! Bodies in memory, by tenant and name.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::model::{BlobRef, TenantId};
use crate::spi::BlobStore;

/// Bodies in memory.
#[derive(Debug, Default)]
pub struct MemoryBlobStore {
    bodies: Mutex<HashMap<(TenantId, String), Vec<u8>>>,
}

impl MemoryBlobStore {
    /// Keeps a body under a name.
    pub fn put(&self, tenant: &TenantId, name: &str, body: &[u8]) {
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.insert((tenant.clone(), name.to_owned()), body.to_vec());
    }
}

#[async_trait]
impl BlobStore for MemoryBlobStore {
    async fn fetch(&self, tenant: &TenantId, blob: &BlobRef) -> Result<Vec<u8>> {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        let body = bodies.get(&(tenant.clone(), blob.name.clone()));
        body.cloned()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "the body is missing"))
    }
}
