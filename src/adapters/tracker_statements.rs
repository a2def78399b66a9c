//! The tracker over an SQL database, bound once for each.
//!
//! `sql_tracker!` implements the port for a type with the fields `writer` and `readers` (pools), and two methods of its own:
//! `insert` writes a batch in one go, `snapshot` begins a read that may take long. Must not know how a database is opened.

/// Implements [`RetrievalTracker`](crate::spi::RetrievalTracker) for `$tracker`.
///
/// `$begin` starts a transaction that writes, `$share` is appended to a `SELECT` that locks, `$ids` says that a value is in
/// the JSON list of `$2`, and `$now` reads the clock in microseconds.
macro_rules! sql_tracker {
    (
        $tracker:ty, $database:ty, $row:ty, begin: $begin:literal, share: $share:literal, ids: $ids:literal, now: $now:literal
    ) => {
        use std::collections::HashMap;
        use std::time::Duration;

        use async_trait::async_trait;
        use sqlx::{Row, Transaction};
        use uuid::Uuid;

        use crate::adapters::tracker_json::{self as json, damaged};
        use crate::adapters::tracker_readers::tracker_readers;
        use crate::adapters::tracker_rows::{TrackerRows, ids_json, uuid};
        use crate::adapters::tracker_sql::{self as sql, FAILED};
        use crate::adapters::tracker_statements::{place, sql_failed};
        use crate::error::{ErrorKind, Result};
        use crate::model::{
            ChunkFate, ChunkId, CorpusName, CorpusRef, DocumentId, Feedback, FeedbackOutcome,
            FeedbackReceipt, Grade, JudgedQuery, Outcome, PurgeBatch, PurgeForecast, PurgeScope,
            RecordPosition, RetrievalId, RetrievalQuality, RetrievalRecord, ScoreKind, StageName,
            TenantId, TimeWindow, Timestamp, TrackedChunk, TrackedEnd, TrackedQuery,
        };
        use crate::spi::RetrievalTracker;

        tracker_readers!($row);

        const CHUNKS: &str = sql::chunks_of!($ids);

        /// The retrieval's row, which no purge removes before the transaction ends: no judgement is left without it.
        async fn shared(
            transaction: &mut Transaction<'static, $database>,
            tenant: &TenantId,
            id: RetrievalId,
        ) -> Result<Option<$row>> {
            let row = sqlx::query(concat!(
                "SELECT corpus, asked_at FROM retrievals WHERE tenant = $1 AND retrieval_id = $2",
                $share
            ))
            .bind(tenant.as_str())
            .bind(uuid(id))
            .fetch_optional(&mut **transaction);
            row.await.map_err(sql_failed)
        }

        async fn in_reply(
            transaction: &mut Transaction<'static, $database>,
            tenant: &TenantId,
            feedback: &Feedback,
        ) -> Result<bool> {
            let row = sqlx::query(sql::IN_REPLY)
                .bind(tenant.as_str())
                .bind(uuid(feedback.retrieval_id))
                .bind(feedback.document_id.as_str())
                .fetch_optional(&mut **transaction);
            Ok(row.await.map_err(sql_failed)?.is_some())
        }

        /// Gives records of one tenant their chunks, as they are in the same state of the database: a purge in between would
        /// leave records without them.
        async fn with_chunks(
            snapshot: &mut Transaction<'static, $database>,
            tenant: &TenantId,
            mut records: Vec<RetrievalRecord>,
        ) -> Result<Vec<RetrievalRecord>> {
            let ids = ids_json(records.iter().map(|record| record.id));
            let rows = sqlx::query(CHUNKS)
                .bind(tenant.as_str())
                .bind(ids)
                .fetch_all(&mut **snapshot)
                .await
                .map_err(sql_failed)?;
            let by_id: HashMap<RetrievalId, usize> =
                records.iter().map(|record| record.id).zip(0..).collect();
            for row in &rows {
                if let Some(at) = by_id.get(&retrieval_id(row)?) {
                    records[*at].chunks.push(chunk(row)?);
                }
            }
            Ok(records)
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
                let begun = self.writer.begin_with($begin).await;
                let mut transaction = begun.map_err(sql_failed)?;
                let retrieval = shared(&mut transaction, tenant, feedback.retrieval_id).await?;
                let Some(retrieval) = retrieval else {
                    return Ok(FeedbackReceipt::NoSuchRetrieval);
                };
                if !in_reply(&mut transaction, tenant, feedback).await? {
                    return Ok(FeedbackReceipt::NotInReply);
                }
                sqlx::query(sql::SAVE_FEEDBACK)
                    .bind(tenant.as_str())
                    .bind(uuid(feedback.retrieval_id))
                    .bind(feedback.document_id.as_str())
                    .bind(text(&retrieval, "corpus")?)
                    .bind(signed(&retrieval, "asked_at")?)
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
                let mut snapshot = self.snapshot().await?;
                let row = sqlx::query(sql::RECORD)
                    .bind(tenant.as_str())
                    .bind(uuid(id))
                    .fetch_optional(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                let Some(row) = row else { return Ok(None) };
                let bare = vec![record(tenant, &row)?];
                Ok(with_chunks(&mut snapshot, tenant, bare).await?.pop())
            }

            async fn feedback_of(
                &self,
                tenant: &TenantId,
                id: RetrievalId,
            ) -> Result<Vec<Feedback>> {
                let rows = sqlx::query(sql::FEEDBACK_OF)
                    .bind(tenant.as_str())
                    .bind(uuid(id))
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
                let mut snapshot = self.snapshot().await?;
                let rows = sqlx::query(sql::RECORDS.pick(corpus.is_some()))
                    .bind(tenant.as_str())
                    .bind(corpus.map_or("", CorpusName::as_str))
                    .bind(since.max(after_at))
                    .bind(until)
                    .bind(after_at)
                    .bind(after_id)
                    .bind(i64::from(limit))
                    .fetch_all(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                let bare = rows.iter().map(|row| record(tenant, row));
                let bare = bare.collect::<Result<Vec<_>>>()?;
                with_chunks(&mut snapshot, tenant, bare).await
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

            async fn corpora_of(&self, tenant: &TenantId) -> Result<Vec<CorpusName>> {
                let rows = sqlx::query(sql::CORPORA_OF)
                    .bind(tenant.as_str())
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                rows.iter().map(corpus_name).collect()
            }

            async fn now(&self) -> Result<Timestamp> {
                let row = sqlx::query($now)
                    .fetch_one(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                time(&row, "now")
            }

            async fn purge_forecast(&self, scope: &PurgeScope) -> Result<PurgeForecast> {
                self.forecast(scope).await
            }

            async fn purge_batch(
                &self,
                scope: &PurgeScope,
                after: Option<RecordPosition>,
                limit: u32,
            ) -> Result<PurgeBatch> {
                self.purge_page(scope, after, limit.max(1)).await
            }
        }
    };
}

use uuid::Uuid;

use crate::adapters::tracker_rows::uuid;
use crate::error::Error;
use crate::model::RecordPosition;

pub(super) use sql_tracker;

pub(super) fn sql_failed(error: sqlx::Error) -> Error {
    Error::dependency("the tracker's database failed", error)
}

/// Where a page begins; without a place, before everything.
pub(super) fn place(after: Option<RecordPosition>) -> (i64, Uuid) {
    after.map_or((i64::MIN, Uuid::nil()), |after| {
        (after.at.as_micros(), uuid(after.id))
    })
}
