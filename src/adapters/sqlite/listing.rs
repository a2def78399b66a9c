//! The registry's read-only questions.

use sqlx::sqlite::SqliteRow;

use super::rows::{small, text, time, to_sql, unsigned};
use super::{SqliteRegistry, sql_failed};
use crate::adapters::metadata_json;
use crate::error::{Error, Result};
use crate::model::{CorpusName, CorpusRef, DocumentId, TenantId, Timestamp};
use crate::spi::{CorpusEntry, DocumentEntry};

const CORPUS: &str = "SELECT c.tenant, c.corpus, c.generation, c.models, \
    COUNT(d.document_id) AS documents, COALESCE(SUM(d.chunks), 0) AS chunks \
    FROM corpora c LEFT JOIN documents d \
    ON d.tenant = c.tenant AND d.corpus = c.corpus AND d.deleted = 0 \
    WHERE c.state = 'active' AND (?1 IS NULL OR c.tenant = ?1) \
    GROUP BY c.tenant, c.corpus ORDER BY c.tenant, c.corpus";

const DOCUMENT: &str = "SELECT d.document_id, d.sequence, d.live, d.chunks, d.updated_at, d.expires_at, d.metadata, c.generation \
    FROM documents d JOIN corpora c ON c.tenant = d.tenant AND c.corpus = d.corpus \
    WHERE d.tenant = ?1 AND d.corpus = ?2 AND d.deleted = 0";

impl SqliteRegistry {
    pub(super) async fn list_corpora(&self, tenant: &TenantId) -> Result<Vec<CorpusEntry>> {
        let rows = sqlx::query(CORPUS)
            .bind(tenant.as_str())
            .fetch_all(&self.readers)
            .await
            .map_err(sql_failed)?;
        rows.iter().map(corpus_entry).collect()
    }

    pub(super) async fn list_all_corpora(&self) -> Result<Vec<(CorpusRef, CorpusEntry)>> {
        let rows = sqlx::query(CORPUS)
            .bind(None::<String>)
            .fetch_all(&self.readers)
            .await
            .map_err(sql_failed)?;
        rows.iter()
            .map(|row| {
                let entry = corpus_entry(row)?;
                let tenant = TenantId::stored(&text(row, "tenant")?)?;
                Ok((CorpusRef::new(tenant, entry.corpus.clone()), entry))
            })
            .collect()
    }

    pub(super) async fn list_documents(
        &self,
        corpus: &CorpusRef,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentEntry>> {
        let sql = format!("{DOCUMENT} AND d.document_id > ?3 ORDER BY d.document_id LIMIT ?4");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(corpus.tenant.as_str())
            .bind(corpus.corpus.as_str())
            .bind(after.map_or("", DocumentId::as_str))
            .bind(i64::from(limit))
            .fetch_all(&self.readers)
            .await
            .map_err(sql_failed)?;
        rows.iter().map(document_entry).collect()
    }

    pub(super) async fn find_document(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
    ) -> Result<Option<DocumentEntry>> {
        let sql = format!("{DOCUMENT} AND d.document_id = ?3");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(corpus.tenant.as_str())
            .bind(corpus.corpus.as_str())
            .bind(document.as_str())
            .fetch_optional(&self.readers)
            .await
            .map_err(sql_failed)?;
        row.as_ref().map(document_entry).transpose()
    }

    pub(super) async fn ids_below(
        &self,
        corpus: &CorpusRef,
        sequence: u64,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentId>> {
        let rows = sqlx::query(
            "SELECT document_id FROM documents WHERE tenant = ? AND corpus = ? AND sequence <= ? \
             AND document_id > ? ORDER BY document_id LIMIT ?",
        )
        .bind(corpus.tenant.as_str())
        .bind(corpus.corpus.as_str())
        .bind(to_sql(sequence))
        .bind(after.map_or("", DocumentId::as_str))
        .bind(i64::from(limit))
        .fetch_all(&self.readers)
        .await
        .map_err(sql_failed)?;
        rows.iter()
            .map(|row| stored_id(&text(row, "document_id")?))
            .collect()
    }
}

fn stored_id(id: &str) -> Result<DocumentId> {
    DocumentId::new(id)
        .map_err(|e| Error::dependency("the registry holds a damaged document id", e))
}

fn corpus_entry(row: &SqliteRow) -> Result<CorpusEntry> {
    let models: serde_json::Value = serde_json::from_str(&text(row, "models")?)
        .map_err(|e| Error::dependency("the registry holds damaged model ids", e))?;
    let model = |name: &str| models[name].as_str().unwrap_or_default().to_owned();
    Ok(CorpusEntry {
        corpus: CorpusName::new(&text(row, "corpus")?)
            .map_err(|e| Error::dependency("the registry holds a damaged corpus name", e))?,
        documents: unsigned(row, "documents")?,
        chunks: unsigned(row, "chunks")?,
        generation: small(row, "generation")?,
        dense_model: model("dense"),
        sparse_model: model("sparse"),
    })
}

fn document_entry(row: &SqliteRow) -> Result<DocumentEntry> {
    Ok(DocumentEntry {
        document_id: stored_id(&text(row, "document_id")?)?,
        sequence: unsigned(row, "sequence")?,
        live: unsigned(row, "live")?,
        chunks: small(row, "chunks")?,
        generation: small(row, "generation")?,
        updated_at: time(row, "updated_at")?.unwrap_or(Timestamp::from_micros(0)),
        expires_at: time(row, "expires_at")?,
        metadata: metadata_json::from_json(&text(row, "metadata")?)?,
    })
}
