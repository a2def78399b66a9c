//! One batch of tracked retrievals in one transaction, many rows a statement.
//!
//! Must not know what the rows mean.

use std::collections::HashSet;

use sqlx::{QueryBuilder, Row, Sqlite, SqliteConnection};
use uuid::Uuid;

use super::SqliteTracker;
use crate::adapters::tracker_rows::{ChunkRow, DocumentRow, RetrievalRow, TrackerRows};
use crate::adapters::tracker_statements::sql_failed;
use crate::error::Result;

/// Rows a statement: below the 32,766 values that SQLite binds at most, in every table.
const ROWS: usize = 500;

const RETRIEVALS: &str = "INSERT INTO retrievals (\
    tenant, retrieval_id, corpus, asked_at, request_id, worker, actor, purpose, query, query_hashed, queries, \
    result_limit, options, outcome, error, correct, ambiguous, incorrect, corrected, degraded, warnings, stages, \
    tracking_us, reranking_us, expansion_us, corrective_us, hybrid_us, models, duration_us, returned, chunks, \
    documents, first_score, first_kind) ";
const CHUNKS: &str = "INSERT INTO retrieved_chunks (\
    tenant, retrieval_id, position, chunk_id, document_id, document_sequence, ordinal, content_hash, rank, score, \
    score_kind, grade, fate, signals) ";
const DOCUMENTS: &str = "INSERT INTO retrieved_documents (\
    tenant, retrieval_id, document_id, rank, score, score_kind) ";

fn retrievals(rows: &[RetrievalRow<'_>]) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new(RETRIEVALS);
    query.push_values(rows, |mut values, row| {
        values
            .push_bind(row.tenant)
            .push_bind(row.retrieval_id)
            .push_bind(row.corpus)
            .push_bind(row.asked_at)
            .push_bind(row.request_id)
            .push_bind(row.worker)
            .push_bind(row.actor)
            .push_bind(row.purpose)
            .push_bind(row.query)
            .push_bind(row.query_hashed)
            .push_bind(row.queries.clone())
            .push_bind(row.result_limit)
            .push_bind(row.options)
            .push_bind(row.outcome)
            .push_bind(row.error)
            .push_bind(row.correct)
            .push_bind(row.ambiguous)
            .push_bind(row.incorrect)
            .push_bind(row.corrected)
            .push_bind(row.degraded.clone())
            .push_bind(row.warnings.clone())
            .push_bind(row.stages.clone())
            .push_bind(row.tracking_us)
            .push_bind(row.reranking_us)
            .push_bind(row.expansion_us)
            .push_bind(row.corrective_us)
            .push_bind(row.hybrid_us)
            .push_bind(row.models.clone())
            .push_bind(row.duration_us)
            .push_bind(row.returned)
            .push_bind(row.chunks)
            .push_bind(row.documents)
            .push_bind(row.first_score)
            .push_bind(row.first_kind);
    });
    query
}

fn chunks(rows: &[ChunkRow<'_>]) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new(CHUNKS);
    query.push_values(rows, |mut values, row| {
        values
            .push_bind(row.tenant)
            .push_bind(row.retrieval_id)
            .push_bind(row.position)
            .push_bind(row.chunk_id)
            .push_bind(row.document_id)
            .push_bind(row.document_sequence)
            .push_bind(row.ordinal)
            .push_bind(row.content_hash)
            .push_bind(row.rank)
            .push_bind(row.score)
            .push_bind(row.score_kind)
            .push_bind(row.grade)
            .push_bind(row.fate)
            .push_bind(row.signals.clone());
    });
    query
}

fn documents(rows: &[DocumentRow<'_>]) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new(DOCUMENTS);
    query.push_values(rows, |mut values, row| {
        values
            .push_bind(row.tenant)
            .push_bind(row.retrieval_id)
            .push_bind(row.document_id)
            .push_bind(row.rank)
            .push_bind(row.score)
            .push_bind(row.score_kind);
    });
    query
}

/// Writes the retrievals that are new; returns which.
async fn insert_new(
    connection: &mut SqliteConnection,
    rows: &[RetrievalRow<'_>],
) -> Result<HashSet<(String, Uuid)>> {
    let mut fresh = HashSet::new();
    for rows in rows.chunks(ROWS) {
        let mut query = retrievals(rows);
        query.push(" ON CONFLICT DO NOTHING RETURNING tenant, retrieval_id");
        let written = query.build().persistent(false);
        let written = written.fetch_all(&mut *connection).await;
        for row in written.map_err(sql_failed)? {
            let tenant: String = row.try_get("tenant").map_err(sql_failed)?;
            let id: Uuid = row.try_get("retrieval_id").map_err(sql_failed)?;
            fresh.insert((tenant, id));
        }
    }
    Ok(fresh)
}

async fn run(connection: &mut SqliteConnection, mut query: QueryBuilder<Sqlite>) -> Result<()> {
    let done = query.build().persistent(false).execute(connection).await;
    done.map(|_| ()).map_err(sql_failed)
}

impl SqliteTracker {
    /// Writes the rows of retrievals that are new; returns how many.
    pub(super) async fn insert(&self, mut rows: TrackerRows<'_>) -> Result<u64> {
        let begun = self.writer.begin_with("BEGIN IMMEDIATE").await;
        let mut transaction = begun.map_err(sql_failed)?;
        let fresh = insert_new(&mut transaction, &rows.retrievals).await?;
        rows.retain_children(|tenant, id| fresh.contains(&(tenant.to_owned(), id)));
        for rows in rows.chunks.chunks(ROWS) {
            run(&mut transaction, chunks(rows)).await?;
        }
        for rows in rows.documents.chunks(ROWS) {
            run(&mut transaction, documents(rows)).await?;
        }
        transaction.commit().await.map_err(sql_failed)?;
        Ok(fresh.len() as u64)
    }
}
