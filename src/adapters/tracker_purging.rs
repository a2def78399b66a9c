//! Purges of the tracker over an SQL database, bound once for each.
//!
//! `sql_purge!` stands beside [`sql_tracker!`](super::tracker_statements), in the same module: it uses what that imports and
//! defines. Must not know what a cutoff was reckoned from.

/// Gives `$tracker` forecasts and batches of purges.
///
/// `$begin` starts a transaction that writes, `$alone` is appended to a `SELECT` that locks, `$ids` and `$held` say that a value
/// is in the JSON list of `$2` or `$4`.
macro_rules! sql_purge {
    (
        $tracker:ty, $database:ty, $row:ty, begin: $begin:literal, alone: $alone:literal, ids: $ids:literal,
        held: $held:literal
    ) => {
        use crate::adapters::tracker_purging::{corpus_text, count, held_json, last_due};
        use crate::adapters::tracker_sql::Scoped;
        use crate::model::TrackingCounts;

        const DUE: Scoped = sql::due!($held);
        const DUE_FEEDBACK: Scoped = sql::due_feedback!($held);
        const PURGE_PAGE: Scoped = sql::purge_page!($held, $alone);

        /// What hangs on retrievals goes before them.
        const REMOVALS: [&str; 4] = [
            sql::remove!("retrieval_feedback", $ids),
            sql::remove!("retrieved_documents", $ids),
            sql::remove!("retrieved_chunks", $ids),
            sql::remove!("retrievals", $ids),
        ];

        /// One row of counts.
        async fn counted(
            snapshot: &mut Transaction<'static, $database>,
            statement: &Scoped,
            scope: &PurgeScope,
        ) -> Result<$row> {
            let row = sqlx::query(statement.pick(scope.corpus.is_some()))
                .bind(scope.tenant.as_str())
                .bind(corpus_text(scope))
                .bind(last_due(scope))
                .bind(held_json(scope))
                .fetch_one(&mut **snapshot);
            row.await.map_err(sql_failed)
        }

        /// Removes retrievals of a tenant.
        async fn remove(
            transaction: &mut Transaction<'static, $database>,
            tenant: &TenantId,
            due: Vec<RetrievalId>,
        ) -> Result<TrackingCounts> {
            let ids = ids_json(due);
            let mut removed = [0; 4];
            for (statement, removed) in REMOVALS.into_iter().zip(&mut removed) {
                let done = sqlx::query(statement)
                    .bind(tenant.as_str())
                    .bind(&ids)
                    .execute(&mut **transaction);
                *removed = done.await.map_err(sql_failed)?.rows_affected();
            }
            let [feedback, documents, chunks, retrievals] = removed;
            Ok(TrackingCounts {
                retrievals,
                chunks,
                documents,
                feedback,
            })
        }

        impl $tracker {
            async fn forecast(&self, scope: &PurgeScope) -> Result<PurgeForecast> {
                let mut snapshot = self.snapshot().await?;
                let total = sqlx::query(sql::TOTAL.pick(scope.corpus.is_some()))
                    .bind(scope.tenant.as_str())
                    .bind(corpus_text(scope))
                    .fetch_one(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                let due = counted(&mut snapshot, &DUE, scope).await?;
                let feedback = counted(&mut snapshot, &DUE_FEEDBACK, scope).await?;
                Ok(PurgeForecast {
                    removed: TrackingCounts {
                        retrievals: unsigned(&due, "retrievals")?,
                        chunks: unsigned(&due, "chunks")?,
                        documents: unsigned(&due, "documents")?,
                        feedback: unsigned(&feedback, "feedback")?,
                    },
                    held: unsigned(&due, "held")?,
                    total: unsigned(&total, "total")?,
                })
            }

            async fn purge_page(
                &self,
                scope: &PurgeScope,
                after: Option<RecordPosition>,
                limit: u32,
            ) -> Result<PurgeBatch> {
                let (after_at, after_id) = place(after);
                let begun = self.writer.begin_with($begin).await;
                let mut transaction = begun.map_err(sql_failed)?;
                let page = sqlx::query(PURGE_PAGE.pick(scope.corpus.is_some()))
                    .bind(scope.tenant.as_str())
                    .bind(corpus_text(scope))
                    .bind(last_due(scope))
                    .bind(held_json(scope))
                    .bind(after_at)
                    .bind(after_id)
                    .bind(i64::from(limit))
                    .fetch_all(&mut *transaction)
                    .await
                    .map_err(sql_failed)?;
                let mut due = Vec::with_capacity(page.len());
                let mut last = None;
                for row in &page {
                    let (at, id) = (time(row, "asked_at")?, retrieval_id(row)?);
                    last = Some(RecordPosition { at, id });
                    if signed(row, "held")? == 0 {
                        due.push(id);
                    }
                }
                let removed = remove(&mut transaction, &scope.tenant, due).await?;
                if let Some(run) = &scope.run {
                    sqlx::query(sql::COUNT_FOR_RUN)
                        .bind(run)
                        .bind(count(removed.retrievals))
                        .bind(count(removed.chunks))
                        .bind(count(removed.documents))
                        .bind(count(removed.feedback))
                        .execute(&mut *transaction)
                        .await
                        .map_err(sql_failed)?;
                }
                transaction.commit().await.map_err(sql_failed)?;
                let next = last.filter(|_| page.len() == limit as usize);
                Ok(PurgeBatch { removed, next })
            }
        }
    };
}

use crate::model::{CorpusName, DocumentId, PurgeScope, Timestamp};

pub(super) use sql_purge;

/// The corpus of a scope; empty without one.
pub(super) fn corpus_text(scope: &PurgeScope) -> &str {
    scope.corpus.as_ref().map_or("", CorpusName::as_str)
}

/// The held documents as a JSON list.
pub(super) fn held_json(scope: &PurgeScope) -> String {
    let ids: Vec<&str> = scope.held.iter().map(DocumentId::as_str).collect();
    super::tracker_json::texts_to_json(&ids)
}

/// A count as databases keep it.
pub(super) fn count(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// The last moment that is due: strictly before the cutoff.
pub(super) fn last_due(scope: &PurgeScope) -> i64 {
    let cutoff = scope.cutoff.map(Timestamp::as_micros);
    cutoff.map_or(i64::MAX, |cutoff| cutoff.saturating_sub(1))
}
