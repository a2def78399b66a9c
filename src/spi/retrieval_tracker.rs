//! The tracker of retrievals: keeps what was asked and found, takes judgements on it, and forgets it on time.
//!
//! Must not know how events arrive, nor when and how much is forgotten: that is for its callers to decide.

use std::fmt;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::{
    CorpusName, CorpusRef, DocumentId, Feedback, FeedbackReceipt, JudgedQuery, PurgeBatch,
    PurgeForecast, PurgeScope, RecordPosition, RetrievalId, RetrievalRecord, TenantId, TimeWindow,
    Timestamp, TrackingCounts,
};

/// How many retrievals one transaction of [`RetrievalTracker::purge_older_than`] removes at most: short enough that inserts
/// hardly wait.
pub const PURGE_BATCH: u32 = 500;

/// The tracker. Every call reads and writes rows of the given tenant only; another tenant's are as if they were not there.
/// Errors: `DependencyFailed` when SQL fails.
#[async_trait]
pub trait RetrievalTracker: Send + Sync + fmt::Debug {
    /// Stores a batch, whole or not at all, durable when it returns. Each record belongs to its own tenant. One whose
    /// (tenant, id) is stored already changes nothing. Returns how many were new.
    async fn record(&self, records: &[RetrievalRecord]) -> Result<u64>;

    /// Stores a judgement on a document of a reply; the last one counts.
    async fn feedback(&self, tenant: &TenantId, feedback: &Feedback) -> Result<FeedbackReceipt>;

    /// One retrieval with its chunks.
    async fn find(&self, tenant: &TenantId, id: RetrievalId) -> Result<Option<RetrievalRecord>>;

    /// The judgements on one retrieval, by document.
    async fn feedback_of(&self, tenant: &TenantId, id: RetrievalId) -> Result<Vec<Feedback>>;

    /// Up to `limit` retrievals of a window with their chunks, by time and id, behind `after`. One whose event comes late stands
    /// where it was asked, which may be on a page that was read before.
    async fn records(
        &self,
        tenant: &TenantId,
        corpus: Option<&CorpusName>,
        window: TimeWindow,
        after: Option<RecordPosition>,
        limit: u32,
    ) -> Result<Vec<RetrievalRecord>>;

    /// Up to `limit` judgements on retrievals of a window with their questions, by the retrieval's time and id, then by
    /// document, behind `after`.
    async fn judgements(
        &self,
        tenant: &TenantId,
        corpus: Option<&CorpusName>,
        window: TimeWindow,
        after: Option<&(RecordPosition, DocumentId)>,
        limit: u32,
    ) -> Result<Vec<JudgedQuery>>;

    /// Up to `limit` ids of documents that replies of a window held, in order, behind `after`. A document of the registry
    /// that is not among them was never retrieved.
    async fn retrieved_documents(
        &self,
        corpus: &CorpusRef,
        window: TimeWindow,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentId>>;

    /// The corpora that retrievals are kept of, in order: an operator call over all tenants.
    async fn tracked_corpora(&self) -> Result<Vec<CorpusRef>>;

    /// The corpora that retrievals of a tenant are kept of, in order: deleted ones and those that never were, too.
    async fn corpora_of(&self, tenant: &TenantId) -> Result<Vec<CorpusName>>;

    /// The database's clock, which cutoffs are reckoned from: an operator call without data.
    async fn now(&self) -> Result<Timestamp>;

    /// What a purge would do.
    async fn purge_forecast(&self, scope: &PurgeScope) -> Result<PurgeForecast>;

    /// One short transaction of a purge: looks at up to `limit` retrievals of the scope, by time and id behind `after`, and
    /// removes those that no hold spares, what hangs on them first. Dropped half-way it leaves all or nothing of the batch.
    async fn purge_batch(
        &self,
        scope: &PurgeScope,
        after: Option<RecordPosition>,
        limit: u32,
    ) -> Result<PurgeBatch>;

    /// A whole purge, batch after batch. Callers with a budget loop over [`purge_batch`](Self::purge_batch) themselves.
    async fn purge_older_than(&self, scope: &PurgeScope) -> Result<TrackingCounts> {
        let mut removed = TrackingCounts::default();
        let mut after = None;
        loop {
            let batch = self.purge_batch(scope, after, PURGE_BATCH).await?;
            removed.add(batch.removed);
            after = batch.next;
            if after.is_none() {
                return Ok(removed);
            }
        }
    }
}
