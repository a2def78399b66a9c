//! Rows of the registry's tables to and from values.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::sql_failed;
use crate::adapters::metadata_json;
use crate::adapters::result_json;
use crate::error::{Error, Result};
use crate::model::{CorpusRef, DocumentId, DocumentRow, Hashes, Timestamp};

/// A corpus' row.
pub(super) struct CorpusRow {
    pub generation: u32,
    pub fence: u64,
    pub active: bool,
    pub result: Option<String>,
}

/// Sequences are JetStream's: they stay far below 2⁶³.
pub(super) fn to_sql(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(row: &SqliteRow, column: &str) -> Result<u64> {
    let value: i64 = row.try_get(column).map_err(sql_failed)?;
    u64::try_from(value).map_err(|e| Error::dependency("the registry holds a negative number", e))
}

pub(super) fn small(row: &SqliteRow, column: &str) -> Result<u32> {
    u32::try_from(unsigned(row, column)?)
        .map_err(|e| Error::dependency("the registry holds a number out of range", e))
}

pub(super) fn text(row: &SqliteRow, column: &str) -> Result<String> {
    row.try_get(column).map_err(sql_failed)
}

pub(super) fn time(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>> {
    let micros: Option<i64> = row.try_get(column).map_err(sql_failed)?;
    Ok(micros.map(Timestamp::from_micros))
}

/// Creates the corpus' row if absent and reads it.
pub(super) async fn corpus_row(
    connection: &mut SqliteConnection,
    corpus: &CorpusRef,
) -> Result<CorpusRow> {
    sqlx::query("INSERT INTO corpora (tenant, corpus) VALUES (?, ?) ON CONFLICT DO NOTHING")
        .bind(corpus.tenant.as_str())
        .bind(corpus.corpus.as_str())
        .execute(&mut *connection)
        .await
        .map_err(sql_failed)?;
    let row = sqlx::query(
        "SELECT generation, fence, state, result FROM corpora WHERE tenant = ? AND corpus = ?",
    )
    .bind(corpus.tenant.as_str())
    .bind(corpus.corpus.as_str())
    .fetch_one(connection)
    .await
    .map_err(sql_failed)?;
    Ok(CorpusRow {
        generation: small(&row, "generation")?,
        fence: unsigned(&row, "fence")?,
        active: text(&row, "state")? == "active",
        result: row.try_get("result").map_err(sql_failed)?,
    })
}

/// The document's row; a default one when absent.
pub(super) async fn document_row(
    connection: &mut SqliteConnection,
    corpus: &CorpusRef,
    document: &DocumentId,
) -> Result<DocumentRow> {
    let row = sqlx::query(
        "SELECT sequence, claimed, live, content_hash, metadata_hash, pipeline_hash, chunks, deleted, \
         expires_at, metadata, result FROM documents WHERE tenant = ? AND corpus = ? AND document_id = ?",
    )
    .bind(corpus.tenant.as_str())
    .bind(corpus.corpus.as_str())
    .bind(document.as_str())
    .fetch_optional(connection)
    .await
    .map_err(sql_failed)?;
    let Some(row) = row else {
        return Ok(DocumentRow::default());
    };
    let result: Option<String> = row.try_get("result").map_err(sql_failed)?;
    Ok(DocumentRow {
        sequence: unsigned(&row, "sequence")?,
        claimed: unsigned(&row, "claimed")?,
        live: unsigned(&row, "live")?,
        hashes: Hashes {
            content: text(&row, "content_hash")?,
            metadata: text(&row, "metadata_hash")?,
            pipeline: text(&row, "pipeline_hash")?,
        },
        chunks: small(&row, "chunks")?,
        deleted: unsigned(&row, "deleted")? != 0,
        expires_at: time(&row, "expires_at")?,
        metadata: metadata_json::from_json(&text(&row, "metadata")?)?,
        result: result.as_deref().map(result_json::from_json).transpose()?,
    })
}

/// Writes the document's row, created if absent.
pub(super) async fn save_document(
    connection: &mut SqliteConnection,
    corpus: &CorpusRef,
    document: &DocumentId,
    row: &DocumentRow,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO documents (tenant, corpus, document_id, sequence, claimed, live, content_hash, \
         metadata_hash, pipeline_hash, chunks, deleted, expires_at, metadata, result, updated_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
         ON CONFLICT (tenant, corpus, document_id) DO UPDATE SET sequence = excluded.sequence, \
         claimed = excluded.claimed, live = excluded.live, content_hash = excluded.content_hash, \
         metadata_hash = excluded.metadata_hash, pipeline_hash = excluded.pipeline_hash, \
         chunks = excluded.chunks, deleted = excluded.deleted, expires_at = excluded.expires_at, \
         metadata = excluded.metadata, result = excluded.result, updated_at = excluded.updated_at",
    )
    .bind(corpus.tenant.as_str())
    .bind(corpus.corpus.as_str())
    .bind(document.as_str())
    .bind(to_sql(row.sequence))
    .bind(to_sql(row.claimed))
    .bind(to_sql(row.live))
    .bind(&row.hashes.content)
    .bind(&row.hashes.metadata)
    .bind(&row.hashes.pipeline)
    .bind(i64::from(row.chunks))
    .bind(i64::from(row.deleted))
    .bind(row.expires_at.map(Timestamp::as_micros))
    .bind(metadata_json::to_json(&row.metadata))
    .bind(row.result.as_ref().map(result_json::to_json))
    .bind(Timestamp::now().as_micros())
    .execute(connection)
    .await
    .map_err(sql_failed)?;
    Ok(())
}
