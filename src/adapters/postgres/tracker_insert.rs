//! One batch of tracked retrievals in one statement: a round trip, however many rows.
//!
//! Must not know what the rows mean.

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Postgres, Row};

use super::PostgresTracker;
use crate::adapters::tracker_rows::TrackerRows;
use crate::adapters::tracker_statements::sql_failed;
use crate::error::Result;

/// Chunks and documents go in only with a retrieval that is new: the statement writes all of a retrieval or nothing.
const INSERT: &str = "\
    WITH fresh AS (\
    INSERT INTO retrievals (\
        tenant, retrieval_id, corpus, asked_at, request_id, worker, actor, purpose, query, query_hashed, queries, \
        result_limit, options, outcome, error, correct, ambiguous, incorrect, corrected, degraded, warnings, stages, \
        tracking_us, reranking_us, expansion_us, corrective_us, hybrid_us, models, duration_us, returned, chunks, \
        documents, first_score, first_kind) \
    SELECT * FROM UNNEST(\
        $1::TEXT[], $2::UUID[], $3::TEXT[], $4::BIGINT[], $5::TEXT[], $6::TEXT[], $7::TEXT[], $8::TEXT[], $9::TEXT[], \
        $10::BIGINT[], $11::TEXT[], $12::BIGINT[], $13::TEXT[], $14::TEXT[], $15::TEXT[], $16::BIGINT[], $17::BIGINT[], \
        $18::BIGINT[], $19::BIGINT[], $20::TEXT[], $21::TEXT[], $22::TEXT[], $23::BIGINT[], $24::BIGINT[], $25::BIGINT[], \
        $26::BIGINT[], $27::BIGINT[], $28::TEXT[], $29::BIGINT[], $30::BIGINT[], $31::BIGINT[], $32::BIGINT[], \
        $33::DOUBLE PRECISION[], $34::TEXT[]) \
    ON CONFLICT DO NOTHING RETURNING tenant, retrieval_id), \
    chunks AS (\
    INSERT INTO retrieved_chunks (\
        tenant, retrieval_id, position, chunk_id, document_id, document_sequence, ordinal, content_hash, rank, score, \
        score_kind, grade, fate, signals) \
    SELECT rows.* FROM UNNEST(\
        $35::TEXT[], $36::UUID[], $37::BIGINT[], $38::UUID[], $39::TEXT[], $40::BIGINT[], $41::BIGINT[], $42::TEXT[], \
        $43::BIGINT[], $44::DOUBLE PRECISION[], $45::TEXT[], $46::TEXT[], $47::TEXT[], $48::TEXT[]) AS rows (\
        tenant, retrieval_id, position, chunk_id, document_id, document_sequence, ordinal, content_hash, rank, score, \
        score_kind, grade, fate, signals) \
    JOIN fresh USING (tenant, retrieval_id)), \
    documents AS (\
    INSERT INTO retrieved_documents (\
        tenant, retrieval_id, document_id, rank, score, score_kind) \
    SELECT rows.* FROM UNNEST(\
        $49::TEXT[], $50::UUID[], $51::TEXT[], $52::BIGINT[], $53::DOUBLE PRECISION[], $54::TEXT[]) AS rows (\
        tenant, retrieval_id, document_id, rank, score, score_kind) \
    JOIN fresh USING (tenant, retrieval_id)) \
    SELECT COUNT(*) AS fresh FROM fresh";

/// One array of a column of every row.
macro_rules! column {
    ($rows:expr, $column:ident) => {
        $rows.iter().map(|row| row.$column).collect::<Vec<_>>()
    };
    ($rows:expr, &$column:ident) => {
        $rows
            .iter()
            .map(|row| row.$column.as_str())
            .collect::<Vec<_>>()
    };
}

type Insert<'q> = Query<'q, Postgres, PgArguments>;

fn bind_retrievals<'q>(query: Insert<'q>, rows: &TrackerRows<'_>) -> Insert<'q> {
    let rows = &rows.retrievals;
    query
        .bind(column!(rows, tenant))
        .bind(column!(rows, retrieval_id))
        .bind(column!(rows, corpus))
        .bind(column!(rows, asked_at))
        .bind(column!(rows, request_id))
        .bind(column!(rows, worker))
        .bind(column!(rows, actor))
        .bind(column!(rows, purpose))
        .bind(column!(rows, query))
        .bind(column!(rows, query_hashed))
        .bind(column!(rows, &queries))
        .bind(column!(rows, result_limit))
        .bind(column!(rows, options))
        .bind(column!(rows, outcome))
        .bind(column!(rows, error))
        .bind(column!(rows, correct))
        .bind(column!(rows, ambiguous))
        .bind(column!(rows, incorrect))
        .bind(column!(rows, corrected))
        .bind(column!(rows, &degraded))
        .bind(column!(rows, &warnings))
        .bind(column!(rows, &stages))
        .bind(column!(rows, tracking_us))
        .bind(column!(rows, reranking_us))
        .bind(column!(rows, expansion_us))
        .bind(column!(rows, corrective_us))
        .bind(column!(rows, hybrid_us))
        .bind(column!(rows, &models))
        .bind(column!(rows, duration_us))
        .bind(column!(rows, returned))
        .bind(column!(rows, chunks))
        .bind(column!(rows, documents))
        .bind(column!(rows, first_score))
        .bind(column!(rows, first_kind))
}

fn bind_chunks<'q>(query: Insert<'q>, rows: &TrackerRows<'_>) -> Insert<'q> {
    let rows = &rows.chunks;
    query
        .bind(column!(rows, tenant))
        .bind(column!(rows, retrieval_id))
        .bind(column!(rows, position))
        .bind(column!(rows, chunk_id))
        .bind(column!(rows, document_id))
        .bind(column!(rows, document_sequence))
        .bind(column!(rows, ordinal))
        .bind(column!(rows, content_hash))
        .bind(column!(rows, rank))
        .bind(column!(rows, score))
        .bind(column!(rows, score_kind))
        .bind(column!(rows, grade))
        .bind(column!(rows, fate))
        .bind(column!(rows, &signals))
}

fn bind_documents<'q>(query: Insert<'q>, rows: &TrackerRows<'_>) -> Insert<'q> {
    let rows = &rows.documents;
    query
        .bind(column!(rows, tenant))
        .bind(column!(rows, retrieval_id))
        .bind(column!(rows, document_id))
        .bind(column!(rows, rank))
        .bind(column!(rows, score))
        .bind(column!(rows, score_kind))
}

impl PostgresTracker {
    /// Writes the rows of retrievals that are new; returns how many.
    pub(super) async fn insert(&self, rows: TrackerRows<'_>) -> Result<u64> {
        let query = bind_retrievals(sqlx::query(INSERT), &rows);
        let query = bind_documents(bind_chunks(query, &rows), &rows);
        let row = query.fetch_one(&self.writer).await.map_err(sql_failed)?;
        let fresh: i64 = row.try_get("fresh").map_err(sql_failed)?;
        Ok(u64::try_from(fresh).unwrap_or(0))
    }
}
