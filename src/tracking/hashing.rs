//! A keyed hash in place of a question: equal questions of a tenant are still recognised, none can be read, and without the key
//! none can be guessed either.
//!
//! Must not know where the key comes from.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::{Error, Result};
use crate::model::{RetrievalRecord, TenantId, TrackedQuery};

/// Replaces texts of questions by HMAC-SHA-256 under one key.
#[derive(Clone)]
pub struct QueryHasher {
    mac: Hmac<Sha256>,
}

impl fmt::Debug for QueryHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueryHasher")
    }
}

impl QueryHasher {
    /// A hasher under this key.
    ///
    /// # Errors
    /// `Internal` for a key that HMAC can't take; it takes any.
    pub fn new(key: &[u8]) -> Result<Self> {
        let mac = Hmac::<Sha256>::new_from_slice(key)
            .map_err(|e| Error::internal("the key can't be used").caused_by(e))?;
        Ok(Self { mac })
    }

    /// Lower-case hexadecimal HMAC of tenant and text: nobody learns that two tenants ask the same.
    pub fn hash(&self, tenant: &TenantId, text: &str) -> String {
        let mut mac = self.mac.clone();
        mac.update(tenant.as_str().as_bytes());
        // No tenant's name holds a NUL: what comes after is the question.
        mac.update(&[0]);
        mac.update(text.as_bytes());
        let digest = mac.finalize().into_bytes();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The record without any text of its question. What expansion wrote is left out: it says as much as the question.
    #[must_use]
    pub fn hashed(&self, mut record: RetrievalRecord) -> RetrievalRecord {
        let hash = self.hash(record.tenant(), record.query.as_str());
        record.query = TrackedQuery::Hash(hash);
        record.queries.clear();
        record
    }
}
