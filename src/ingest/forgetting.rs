//! Forgets a tenant: its corpora as a deletion does it, then what deletions leave behind, then what was tracked.
//!
//! What stays is a row a corpus, with its name, generation and fence: without it a job that was already on its way, or a
//! dropped generation, could come back. Must not know where jobs wait.

use std::sync::Arc;

use super::IngestProcessor;
use crate::error::{Error, Result};
use crate::model::{
    CorpusRef, IngestJob, IngestOperation, JobId, PurgeScope, TenantId, TrackingCounts,
};
use crate::spi::{DocumentRegistry, RetentionRegistry, RetrievalTracker};

/// Forgets tenants.
#[derive(Debug, Clone)]
pub struct Forgetter {
    /// Deletes corpora.
    pub processor: Arc<IngestProcessor>,
    /// Counts documents.
    pub documents: Arc<dyn DocumentRegistry>,
    /// Holds, tombstones.
    pub retention: Arc<dyn RetentionRegistry>,
    /// Retrievals.
    pub tracker: Arc<dyn RetrievalTracker>,
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// Corpora.
    pub corpora: u64,
    /// Documents.
    pub documents: u64,
    /// Their chunks.
    pub chunks: u64,
    /// Rows of documents that were deleted before or now.
    pub tombstones: u64,
    /// Retrievals and what hung on them.
    pub tracking: TrackingCounts,
}

impl Forgetter {
    /// Forgets all of a tenant up to and with the job `sequence`: the newest that the stream has. Repeating it is harmless.
    ///
    /// # Errors
    /// `InvalidField` on `tenant` while a legal hold is in force; others leave the rest for a repetition.
    pub async fn forget(&self, tenant: &TenantId, sequence: u64) -> Result<Forgotten> {
        self.check_holds(tenant).await?;
        let mut forgotten = Forgotten {
            documents: self.documents.document_count(tenant).await?,
            ..Forgotten::default()
        };
        for corpus in self.retention.known_corpora(tenant).await? {
            let job = IngestJob {
                job_id: JobId::derive(None, sequence),
                corpus: CorpusRef::new(tenant.clone(), corpus),
                sequence,
                attempt: 1,
                operation: IngestOperation::DeleteCorpus,
            };
            let result = self.processor.process(&job).await?;
            forgotten.corpora += 1;
            forgotten.chunks += u64::from(result.chunks_deleted);
        }
        let rows = self.retention.forget_tombstones(tenant, sequence);
        forgotten.tombstones = rows.await?;
        let all = PurgeScope::everything(tenant);
        forgotten.tracking = self.tracker.purge_older_than(&all).await?;
        Ok(forgotten)
    }

    /// Refuses while anything of the tenant is held.
    ///
    /// # Errors
    /// `InvalidField` on `tenant`.
    pub async fn check_holds(&self, tenant: &TenantId) -> Result<()> {
        match self.retention.holds(tenant).await?.len() {
            0 => Ok(()),
            count => Err(Error::invalid_field(
                "tenant",
                format!("is under {count} legal holds: release them first (`ragbus hold ls`)"),
            )),
        }
    }
}
