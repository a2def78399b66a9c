//! The tracker of retrievals in memory: the same rules, without SQL.

mod analysis;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::error::Result;
use crate::model::{
    CorpusName, CorpusRef, DocumentId, Feedback, FeedbackReceipt, JudgedQuery, PurgeBatch,
    PurgeForecast, PurgeScope, RecordPosition, RetrievalId, RetrievalRecord, TenantId, TimeWindow,
    Timestamp, TrackingCounts,
};
use crate::spi::RetrievalTracker;

#[derive(Debug, Clone)]
struct Row {
    record: RetrievalRecord,
    feedback: BTreeMap<DocumentId, Feedback>,
}

impl Row {
    fn counts(&self) -> TrackingCounts {
        TrackingCounts {
            retrievals: 1,
            chunks: self.record.chunks.len() as u64,
            documents: self.record.documents().len() as u64,
            feedback: self.feedback.len() as u64,
        }
    }

    fn is_held(&self, scope: &PurgeScope) -> bool {
        let documents = self.record.documents();
        let mut shown = documents.iter().map(|chunk| &chunk.document_id);
        shown.any(|document| scope.held.contains(document))
    }
}

type Rows = BTreeMap<(TenantId, RetrievalId), Row>;

/// An in-memory tracker.
#[derive(Debug, Default)]
pub struct MemoryTracker {
    rows: Mutex<Rows>,
}

impl MemoryTracker {
    /// An empty tracker.
    pub fn new() -> Self {
        Self::default()
    }

    fn locked(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows of a tenant, and corpus, by time and id.
    fn listed(&self, tenant: &TenantId, corpus: Option<&CorpusName>) -> Vec<Row> {
        let rows = self.locked();
        let own = rows.values().filter(|row| {
            let of = &row.record.corpus;
            of.tenant == *tenant && corpus.is_none_or(|corpus| of.corpus == *corpus)
        });
        let mut own: Vec<Row> = own.cloned().collect();
        own.sort_by_key(|row| RecordPosition::of(&row.record));
        own
    }

    fn in_window(
        &self,
        tenant: &TenantId,
        corpus: Option<&CorpusName>,
        window: TimeWindow,
    ) -> Vec<Row> {
        let mut rows = self.listed(tenant, corpus);
        rows.retain(|row| window.contains(row.record.at));
        rows
    }

    /// Rows that a purge looks at.
    fn expired(&self, scope: &PurgeScope) -> Vec<Row> {
        let mut rows = self.listed(&scope.tenant, scope.corpus.as_ref());
        rows.retain(|row| scope.cutoff.is_none_or(|cutoff| row.record.at < cutoff));
        rows
    }
}

fn judged(row: &Row, feedback: &Feedback) -> JudgedQuery {
    JudgedQuery {
        corpus: row.record.corpus.corpus.clone(),
        retrieved_at: row.record.at,
        query: row.record.query.clone(),
        feedback: feedback.clone(),
    }
}

#[async_trait]
impl RetrievalTracker for MemoryTracker {
    async fn record(&self, records: &[RetrievalRecord]) -> Result<u64> {
        let mut rows = self.locked();
        let before = rows.len();
        for record in records {
            let key = (record.tenant().clone(), record.id);
            rows.entry(key).or_insert_with(|| Row {
                record: record.storable().into_owned(),
                feedback: BTreeMap::new(),
            });
        }
        Ok((rows.len() - before) as u64)
    }

    async fn feedback(&self, tenant: &TenantId, feedback: &Feedback) -> Result<FeedbackReceipt> {
        let mut rows = self.locked();
        let Some(row) = rows.get_mut(&(tenant.clone(), feedback.retrieval_id)) else {
            return Ok(FeedbackReceipt::NoSuchRetrieval);
        };
        let documents = row.record.documents();
        if !documents
            .iter()
            .any(|chunk| chunk.document_id == feedback.document_id)
        {
            return Ok(FeedbackReceipt::NotInReply);
        }
        let mut stored = feedback.clone();
        stored.actor = feedback.storable_actor();
        row.feedback.insert(stored.document_id.clone(), stored);
        Ok(FeedbackReceipt::Stored)
    }

    async fn find(&self, tenant: &TenantId, id: RetrievalId) -> Result<Option<RetrievalRecord>> {
        let rows = self.locked();
        let found = rows.get(&(tenant.clone(), id));
        Ok(found.map(|row| row.record.clone()))
    }

    async fn feedback_of(&self, tenant: &TenantId, id: RetrievalId) -> Result<Vec<Feedback>> {
        let rows = self.locked();
        let found = rows.get(&(tenant.clone(), id));
        let all = found.map(|row| row.feedback.values().cloned().collect());
        Ok(all.unwrap_or_default())
    }

    async fn records(
        &self,
        tenant: &TenantId,
        corpus: Option<&CorpusName>,
        window: TimeWindow,
        after: Option<RecordPosition>,
        limit: u32,
    ) -> Result<Vec<RetrievalRecord>> {
        let rows = self.in_window(tenant, corpus, window).into_iter();
        let records = rows.map(|row| row.record);
        let behind = records.filter(|r| after.is_none_or(|after| RecordPosition::of(r) > after));
        Ok(behind.take(limit as usize).collect())
    }

    async fn judgements(
        &self,
        tenant: &TenantId,
        corpus: Option<&CorpusName>,
        window: TimeWindow,
        after: Option<&(RecordPosition, DocumentId)>,
        limit: u32,
    ) -> Result<Vec<JudgedQuery>> {
        let rows = self.in_window(tenant, corpus, window);
        let all = rows
            .iter()
            .flat_map(|row| row.feedback.values().map(|feedback| judged(row, feedback)));
        let behind = all.filter(|judged| after.is_none_or(|after| judged.position() > *after));
        Ok(behind.take(limit as usize).collect())
    }

    async fn retrieved_documents(
        &self,
        corpus: &CorpusRef,
        window: TimeWindow,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentId>> {
        let rows = self.in_window(&corpus.tenant, Some(&corpus.corpus), window);
        let shown = rows.iter().flat_map(|row| row.record.documents());
        let ids: BTreeSet<DocumentId> = shown.map(|chunk| chunk.document_id.clone()).collect();
        let behind = ids
            .into_iter()
            .filter(|id| after.is_none_or(|after| id > after));
        Ok(behind.take(limit as usize).collect())
    }

    async fn tracked_corpora(&self) -> Result<Vec<CorpusRef>> {
        let rows = self.locked();
        let corpora: BTreeSet<CorpusRef> =
            rows.values().map(|row| row.record.corpus.clone()).collect();
        Ok(corpora.into_iter().collect())
    }

    async fn corpora_of(&self, tenant: &TenantId) -> Result<Vec<CorpusName>> {
        let all = self.tracked_corpora().await?.into_iter();
        let own = all.filter(|corpus| corpus.tenant == *tenant);
        Ok(own.map(|corpus| corpus.corpus).collect())
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(Timestamp::now())
    }

    async fn purge_forecast(&self, scope: &PurgeScope) -> Result<PurgeForecast> {
        let total = self.listed(&scope.tenant, scope.corpus.as_ref()).len() as u64;
        let mut forecast = PurgeForecast {
            total,
            ..PurgeForecast::default()
        };
        for row in self.expired(scope) {
            if row.is_held(scope) {
                forecast.held += 1;
            } else {
                forecast.removed.add(row.counts());
            }
        }
        Ok(forecast)
    }

    async fn purge_batch(
        &self,
        scope: &PurgeScope,
        after: Option<RecordPosition>,
        limit: u32,
    ) -> Result<PurgeBatch> {
        let limit = limit.max(1) as usize;
        let mut page = self.expired(scope);
        page.retain(|row| after.is_none_or(|after| RecordPosition::of(&row.record) > after));
        page.truncate(limit);
        let last = page.last().map(|row| RecordPosition::of(&row.record));
        let mut removed = TrackingCounts::default();
        let mut rows = self.locked();
        for row in page.iter().filter(|row| !row.is_held(scope)) {
            let key = (scope.tenant.clone(), row.record.id);
            if let Some(row) = rows.remove(&key) {
                removed.add(row.counts());
            }
        }
        let next = last.filter(|_| page.len() == limit);
        Ok(PurgeBatch { removed, next })
    }
}
