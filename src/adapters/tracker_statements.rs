//! The tracker over an SQL database, bound once for each.
//!
//! `sql_tracker!` implements the port for a type with the fields `writer` and `readers` (pools), and two methods of its own:
//! `insert` writes a batch in one go, `snapshot` begins a read that may take longer than a request would wait.
//! Must not know how a database is opened.

/// Implements [`RetrievalTracker`](crate::spi::RetrievalTracker) for `$tracker`.
///
/// `$begin` starts a transaction that writes, `$share` and `$alone` are appended to a `SELECT` that locks, `$ids` and `$held`
/// say that a value is in the JSON list of `$2` or `$4`, and `$now` reads the clock in microseconds.
macro_rules! sql_tracker {
    (
        $tracker:ty, $row:ty, begin: $begin:literal, share: $share:literal, alone: $alone:literal, ids: $ids:literal,
        held: $held:literal, now: $now:literal
    ) => {
        use std::time::Duration;

        use async_trait::async_trait;
        use sqlx::Row;
        use uuid::Uuid;

        use crate::adapters::tracker_json::{self as json, damaged};
        use crate::adapters::tracker_readers::tracker_readers;
        use crate::adapters::tracker_rows::TrackerRows;
        use crate::adapters::tracker_sql::{self as sql, FAILED, Scoped};
        use crate::adapters::tracker_statements::{
            held_json, ids_json, last_due, place, sql_failed,
        };
        use crate::error::{ErrorKind, Result};
        use crate::model::{
            ChunkFate, ChunkId, CorpusName, CorpusRef, DocumentId, Feedback, FeedbackOutcome,
            FeedbackReceipt, Grade, JudgedQuery, Outcome, PurgeBatch, PurgeForecast, PurgeScope,
            RecordPosition, RetrievalId, RetrievalQuality, RetrievalRecord, ScoreKind, StageName,
            TenantId, TimeWindow, Timestamp, TrackedChunk, TrackedEnd, TrackedQuery,
            TrackingCounts,
        };
        use crate::spi::RetrievalTracker;

        tracker_readers!($row);

        const CHUNKS: &str = sql::chunks_of!($ids);
        const DUE: Scoped = sql::due!($held);
        const DUE_FEEDBACK: Scoped = sql::due_feedback!($held);
        const PURGE_PAGE: Scoped = sql::purge_page!($held, $alone);

        impl $tracker {
            /// Gives records of one tenant their chunks.
            async fn with_chunks(
                &self,
                tenant: &TenantId,
                mut records: Vec<RetrievalRecord>,
            ) -> Result<Vec<RetrievalRecord>> {
                let ids = ids_json(records.iter().map(|record| record.id));
                let rows = sqlx::query(CHUNKS)
                    .bind(tenant.as_str())
                    .bind(ids)
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                let by_id = records.iter().enumerate();
                let by_id: std::collections::HashMap<RetrievalId, usize> =
                    by_id.map(|(at, record)| (record.id, at)).collect();
                for row in &rows {
                    if let Some(at) = by_id.get(&retrieval_id(row)?) {
                        records[*at].chunks.push(chunk(row)?);
                    }
                }
                Ok(records)
            }
        }

        #[async_trait]
        impl RetrievalTracker for $tracker {
            async fn record(&self, records: &[RetrievalRecord]) -> Result<u64> {
                if records.is_empty() {
                    return Ok(0);
                }
                let records: Vec<_> = records.iter().map(RetrievalRecord::storable).collect();
                self.insert(TrackerRows::of(&records)).await
            }

            async fn feedback(
                &self,
                tenant: &TenantId,
                feedback: &Feedback,
            ) -> Result<FeedbackReceipt> {
                let id = Uuid::from_u128(feedback.retrieval_id.as_u128());
                let begun = self.writer.begin_with($begin).await;
                let mut transaction = begun.map_err(sql_failed)?;
                // A purge waits for this lock, so that no judgement is left without its retrieval.
                let row = sqlx::query(concat!(
                    "SELECT corpus, asked_at FROM retrievals WHERE tenant = $1 AND retrieval_id = $2",
                    $share
                ))
                .bind(tenant.as_str())
                .bind(id)
                .fetch_optional(&mut *transaction)
                .await
                .map_err(sql_failed)?;
                let Some(row) = row else {
                    return Ok(FeedbackReceipt::NoSuchRetrieval);
                };
                let in_reply = sqlx::query(sql::IN_REPLY)
                    .bind(tenant.as_str())
                    .bind(id)
                    .bind(feedback.document_id.as_str())
                    .fetch_optional(&mut *transaction)
                    .await
                    .map_err(sql_failed)?;
                if in_reply.is_none() {
                    return Ok(FeedbackReceipt::NotInReply);
                }
                sqlx::query(sql::SAVE_FEEDBACK)
                    .bind(tenant.as_str())
                    .bind(id)
                    .bind(feedback.document_id.as_str())
                    .bind(text(&row, "corpus")?)
                    .bind(signed(&row, "asked_at")?)
                    .bind(feedback.outcome.name())
                    .bind(feedback.storable_actor())
                    .bind(feedback.at.as_micros())
                    .execute(&mut *transaction)
                    .await
                    .map_err(sql_failed)?;
                transaction.commit().await.map_err(sql_failed)?;
                Ok(FeedbackReceipt::Stored)
            }

            async fn find(
                &self,
                tenant: &TenantId,
                id: RetrievalId,
            ) -> Result<Option<RetrievalRecord>> {
                let row = sqlx::query(sql::RECORD)
                    .bind(tenant.as_str())
                    .bind(Uuid::from_u128(id.as_u128()))
                    .fetch_optional(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                let Some(row) = row else { return Ok(None) };
                let bare = vec![record(tenant, &row)?];
                Ok(self.with_chunks(tenant, bare).await?.pop())
            }

            async fn feedback_of(
                &self,
                tenant: &TenantId,
                id: RetrievalId,
            ) -> Result<Vec<Feedback>> {
                let rows = sqlx::query(sql::FEEDBACK_OF)
                    .bind(tenant.as_str())
                    .bind(Uuid::from_u128(id.as_u128()))
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                rows.iter().map(feedback_of_row).collect()
            }

            async fn records(
                &self,
                tenant: &TenantId,
                corpus: Option<&CorpusName>,
                window: TimeWindow,
                after: Option<RecordPosition>,
                limit: u32,
            ) -> Result<Vec<RetrievalRecord>> {
                let (since, until) = window.bounds();
                let (after_at, after_id) = place(after);
                let rows = sqlx::query(sql::RECORDS.pick(corpus.is_some()))
                    .bind(tenant.as_str())
                    .bind(corpus.map_or("", CorpusName::as_str))
                    .bind(since.max(after_at))
                    .bind(until)
                    .bind(after_at)
                    .bind(after_id)
                    .bind(i64::from(limit))
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                let bare = rows.iter().map(|row| record(tenant, row));
                let bare = bare.collect::<Result<Vec<_>>>()?;
                self.with_chunks(tenant, bare).await
            }

            async fn judgements(
                &self,
                tenant: &TenantId,
                corpus: Option<&CorpusName>,
                window: TimeWindow,
                after: Option<&(RecordPosition, DocumentId)>,
                limit: u32,
            ) -> Result<Vec<JudgedQuery>> {
                let (since, until) = window.bounds();
                let (after_at, after_id) = place(after.map(|(position, _)| *position));
                let rows = sqlx::query(sql::JUDGEMENTS.pick(corpus.is_some()))
                    .bind(tenant.as_str())
                    .bind(corpus.map_or("", CorpusName::as_str))
                    .bind(since.max(after_at))
                    .bind(until)
                    .bind(after_at)
                    .bind(after_id)
                    .bind(after.map_or("", |(_, document)| document.as_str()))
                    .bind(i64::from(limit))
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                rows.iter().map(judged).collect()
            }

            async fn retrieved_documents(
                &self,
                corpus: &CorpusRef,
                window: TimeWindow,
                after: Option<&DocumentId>,
                limit: u32,
            ) -> Result<Vec<DocumentId>> {
                let (since, until) = window.bounds();
                let mut snapshot = self.snapshot().await?;
                let rows = sqlx::query(sql::RETRIEVED_DOCUMENTS)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .bind(since)
                    .bind(until)
                    .bind(after.map_or("", DocumentId::as_str))
                    .bind(i64::from(limit))
                    .fetch_all(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                rows.iter().map(document_id).collect()
            }

            async fn tracked_corpora(&self) -> Result<Vec<CorpusRef>> {
                let rows = sqlx::query(sql::TRACKED_CORPORA)
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                let corpus = |row: &$row| {
                    let tenant = TenantId::stored(&text(row, "tenant")?)?;
                    Ok(CorpusRef::new(tenant, corpus_name(row)?))
                };
                rows.iter().map(corpus).collect()
            }

            async fn now(&self) -> Result<Timestamp> {
                let row = sqlx::query($now)
                    .fetch_one(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                time(&row, "now")
            }

            async fn purge_forecast(&self, scope: &PurgeScope) -> Result<PurgeForecast> {
                let mut snapshot = self.snapshot().await?;
                let corpus = scope.corpus.as_ref().map_or("", CorpusName::as_str);
                let has_corpus = scope.corpus.is_some();
                let total = sqlx::query(sql::TOTAL.pick(has_corpus))
                    .bind(scope.tenant.as_str())
                    .bind(corpus)
                    .fetch_one(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                let mut found = Vec::with_capacity(2);
                for statement in [DUE, DUE_FEEDBACK] {
                    let row = sqlx::query(statement.pick(has_corpus))
                        .bind(scope.tenant.as_str())
                        .bind(corpus)
                        .bind(last_due(scope))
                        .bind(held_json(scope))
                        .fetch_one(&mut *snapshot)
                        .await;
                    found.push(row.map_err(sql_failed)?);
                }
                Ok(PurgeForecast {
                    removed: TrackingCounts {
                        retrievals: unsigned(&found[0], "retrievals")?,
                        chunks: unsigned(&found[0], "chunks")?,
                        documents: unsigned(&found[0], "documents")?,
                        feedback: unsigned(&found[1], "feedback")?,
                    },
                    held: unsigned(&found[0], "held")?,
                    total: unsigned(&total, "total")?,
                })
            }

            async fn purge_batch(
                &self,
                scope: &PurgeScope,
                after: Option<RecordPosition>,
                limit: u32,
            ) -> Result<PurgeBatch> {
                let limit = limit.max(1);
                let (after_at, after_id) = place(after);
                let begun = self.writer.begin_with($begin).await;
                let mut transaction = begun.map_err(sql_failed)?;
                let page = sqlx::query(PURGE_PAGE.pick(scope.corpus.is_some()))
                    .bind(scope.tenant.as_str())
                    .bind(scope.corpus.as_ref().map_or("", CorpusName::as_str))
                    .bind(last_due(scope))
                    .bind(held_json(scope))
                    .bind(after_at)
                    .bind(after_id)
                    .bind(i64::from(limit))
                    .fetch_all(&mut *transaction)
                    .await
                    .map_err(sql_failed)?;
                let mut due = Vec::with_capacity(page.len());
                let mut next = None;
                for row in &page {
                    let (at, id) = (time(row, "asked_at")?, retrieval_id(row)?);
                    next = Some(RecordPosition { at, id });
                    if signed(row, "held")? == 0 {
                        due.push(id);
                    }
                }
                let ids = ids_json(due);
                let mut removed = [0; 4];
                // What hangs on retrievals goes before them.
                let statements = [
                    sql::remove!("retrieval_feedback", $ids),
                    sql::remove!("retrieved_documents", $ids),
                    sql::remove!("retrieved_chunks", $ids),
                    sql::remove!("retrievals", $ids),
                ];
                for (statement, removed) in statements.into_iter().zip(&mut removed) {
                    let done = sqlx::query(statement)
                        .bind(scope.tenant.as_str())
                        .bind(&ids)
                        .execute(&mut *transaction)
                        .await;
                    *removed = done.map_err(sql_failed)?.rows_affected();
                }
                transaction.commit().await.map_err(sql_failed)?;
                let [feedback, documents, chunks, retrievals] = removed;
                Ok(PurgeBatch {
                    removed: TrackingCounts {
                        retrievals,
                        chunks,
                        documents,
                        feedback,
                    },
                    next: next.filter(|_| page.len() == limit as usize),
                })
            }
        }
    };
}

use uuid::Uuid;

use crate::error::Error;
use crate::model::{DocumentId, PurgeScope, RecordPosition, RetrievalId, Timestamp};

pub(super) use sql_tracker;

pub(super) fn sql_failed(error: sqlx::Error) -> Error {
    Error::dependency("the tracker's database failed", error)
}

/// A set of retrievals as both databases take it: a JSON list of hexadecimal digits.
pub(super) fn ids_json(ids: impl IntoIterator<Item = RetrievalId>) -> String {
    let quoted = ids
        .into_iter()
        .map(|id| format!("\"{:032x}\"", id.as_u128()));
    format!("[{}]", quoted.collect::<Vec<_>>().join(","))
}

/// The held documents as a JSON list.
pub(super) fn held_json(scope: &PurgeScope) -> String {
    let ids: Vec<&str> = scope.held.iter().map(DocumentId::as_str).collect();
    super::tracker_json::texts_to_json(&ids)
}

/// The last moment that is due: strictly before the cutoff.
pub(super) fn last_due(scope: &PurgeScope) -> i64 {
    let cutoff = scope.cutoff.map(Timestamp::as_micros);
    cutoff.map_or(i64::MAX, |cutoff| cutoff.saturating_sub(1))
}

/// Where a page begins; without a place, before everything.
pub(super) fn place(after: Option<RecordPosition>) -> (i64, Uuid) {
    after.map_or((i64::MIN, Uuid::nil()), |after| {
        (after.at.as_micros(), Uuid::from_u128(after.id.as_u128()))
    })
}
