//! The registry's transactions. The rules are `model::fencing`'s; this loads, applies, stores.

use async_trait::async_trait;
use sqlx::{Row, Sqlite, Transaction};

use super::rows::{CorpusRow, corpus_row, document_row, save_document, to_sql};
use super::{SqliteRegistry, sql_failed};
use crate::adapters::result_json;
use crate::error::Result;
use crate::model::{
    CorpusRef, Decision, DocumentId, Finish, Hashes, IngestResult, IngestStatus, TenantId, Written,
    begin_delete, begin_put, fence_document, finish_put,
};
use crate::spi::{Begun, CorpusEntry, DocumentEntry, DocumentRegistry, Fenced, Finished};

impl SqliteRegistry {
    async fn transaction(&self) -> Result<Transaction<'static, Sqlite>> {
        self.writer
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(sql_failed)
    }
}

/// A put is about to write: the corpus exists from now on.
async fn activate(
    transaction: &mut Transaction<'static, Sqlite>,
    corpus: &CorpusRef,
    (dense, sparse): (&str, &str),
) -> Result<()> {
    let models = serde_json::json!({ "dense": dense, "sparse": sparse }).to_string();
    sqlx::query(
        "UPDATE corpora SET state = 'active', models = ? WHERE tenant = ? AND corpus = ? AND state <> 'active'",
    )
    .bind(models)
    .bind(corpus.tenant.as_str())
    .bind(corpus.corpus.as_str())
    .execute(&mut **transaction)
    .await
    .map_err(sql_failed)?;
    Ok(())
}

/// The chunks that a corpus deletion at `sequence` removes.
async fn chunks_below(
    transaction: &mut Transaction<'static, Sqlite>,
    corpus: &CorpusRef,
    sequence: u64,
) -> Result<u32> {
    let row = sqlx::query(
        "SELECT COALESCE(SUM(chunks), 0) AS chunks FROM documents \
         WHERE tenant = ? AND corpus = ? AND deleted = 0 AND sequence < ?",
    )
    .bind(corpus.tenant.as_str())
    .bind(corpus.corpus.as_str())
    .bind(to_sql(sequence))
    .fetch_one(&mut **transaction)
    .await
    .map_err(sql_failed)?;
    super::rows::small(&row, "chunks")
}

async fn set_fence(
    transaction: &mut Transaction<'static, Sqlite>,
    corpus: &CorpusRef,
    result: &IngestResult,
) -> Result<()> {
    sqlx::query("UPDATE corpora SET fence = ?, result = ? WHERE tenant = ? AND corpus = ?")
        .bind(to_sql(result.sequence))
        .bind(result_json::to_json(result))
        .bind(corpus.tenant.as_str())
        .bind(corpus.corpus.as_str())
        .execute(&mut **transaction)
        .await
        .map_err(sql_failed)?;
    Ok(())
}

/// Whether anything newer than the deletion, or anything alive, is in the corpus.
async fn in_use(
    transaction: &mut Transaction<'static, Sqlite>,
    corpus: &CorpusRef,
    sequence: u64,
) -> Result<bool> {
    let row = sqlx::query(
        "SELECT EXISTS (SELECT 1 FROM documents WHERE tenant = ? AND corpus = ? \
         AND (deleted = 0 OR sequence > ? OR claimed > ?)) AS used",
    )
    .bind(corpus.tenant.as_str())
    .bind(corpus.corpus.as_str())
    .bind(to_sql(sequence))
    .bind(to_sql(sequence))
    .fetch_one(&mut **transaction)
    .await
    .map_err(sql_failed)?;
    Ok(row.try_get::<i64, _>("used").map_err(sql_failed)? != 0)
}

#[async_trait]
impl DocumentRegistry for SqliteRegistry {
    async fn begin_put(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        hashes: &Hashes,
        models: (&str, &str),
        template: &IngestResult,
    ) -> Result<Begun> {
        let mut transaction = self.transaction().await?;
        let CorpusRow {
            generation, fence, ..
        } = corpus_row(&mut transaction, corpus).await?;
        let mut row = document_row(&mut transaction, corpus, document).await?;
        let decision = begin_put(&mut row, fence, hashes, template);
        if !matches!(decision, Decision::Finished(_)) {
            activate(&mut transaction, corpus, models).await?;
        }
        save_document(&mut transaction, corpus, document, &row).await?;
        transaction.commit().await.map_err(sql_failed)?;
        Ok(Begun {
            decision,
            live: row.live,
            generation,
        })
    }

    async fn begin_delete(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        template: &IngestResult,
    ) -> Result<Begun> {
        let mut transaction = self.transaction().await?;
        let CorpusRow {
            generation, fence, ..
        } = corpus_row(&mut transaction, corpus).await?;
        let mut row = document_row(&mut transaction, corpus, document).await?;
        let decision = begin_delete(&mut row, fence, template);
        save_document(&mut transaction, corpus, document, &row).await?;
        transaction.commit().await.map_err(sql_failed)?;
        Ok(Begun {
            decision,
            live: row.live,
            generation,
        })
    }

    async fn finish_put(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        written: &Written,
    ) -> Result<Finished> {
        let mut transaction = self.transaction().await?;
        let CorpusRow {
            generation, fence, ..
        } = corpus_row(&mut transaction, corpus).await?;
        let mut row = document_row(&mut transaction, corpus, document).await?;
        let finish = finish_put(&mut row, fence, generation, written);
        if matches!(finish, Finish::Done(_)) {
            save_document(&mut transaction, corpus, document, &row).await?;
        }
        transaction.commit().await.map_err(sql_failed)?;
        Ok(Finished {
            finish,
            live: row.live,
        })
    }

    async fn raise_fence(&self, corpus: &CorpusRef, template: &IngestResult) -> Result<Fenced> {
        let mut transaction = self.transaction().await?;
        let before = corpus_row(&mut transaction, corpus).await?;
        let mut result = template.clone();
        result.status = IngestStatus::Deleted;
        if template.sequence > before.fence {
            result.chunks_deleted =
                chunks_below(&mut transaction, corpus, template.sequence).await?;
            set_fence(&mut transaction, corpus, &result).await?;
        } else if template.sequence == before.fence
            && let Some(stored) = &before.result
        {
            result = result_json::from_json(stored)?;
        }
        transaction.commit().await.map_err(sql_failed)?;
        Ok(Fenced {
            result,
            generation: before.generation,
        })
    }

    async fn documents_below(
        &self,
        corpus: &CorpusRef,
        sequence: u64,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentId>> {
        self.ids_below(corpus, sequence, after, limit).await
    }

    async fn fence_document(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        sequence: u64,
    ) -> Result<Option<(u64, u32)>> {
        let mut transaction = self.transaction().await?;
        let CorpusRow { generation, .. } = corpus_row(&mut transaction, corpus).await?;
        let mut row = document_row(&mut transaction, corpus, document).await?;
        let clean_up = fence_document(&mut row, sequence);
        if clean_up {
            save_document(&mut transaction, corpus, document, &row).await?;
        }
        transaction.commit().await.map_err(sql_failed)?;
        Ok(clean_up.then_some((row.live, generation)))
    }

    async fn retire_generation(&self, corpus: &CorpusRef, sequence: u64) -> Result<Option<u32>> {
        let mut transaction = self.transaction().await?;
        let row = corpus_row(&mut transaction, corpus).await?;
        let used = in_use(&mut transaction, corpus, sequence).await?;
        if row.active && !used {
            sqlx::query(
                "UPDATE corpora SET generation = generation + 1, state = 'absent' WHERE tenant = ? AND corpus = ?",
            )
            .bind(corpus.tenant.as_str())
            .bind(corpus.corpus.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(sql_failed)?;
            transaction.commit().await.map_err(sql_failed)?;
            return Ok(Some(row.generation));
        }
        transaction.commit().await.map_err(sql_failed)?;
        // A crash may have come between an earlier raise and the drop: what is below can always go.
        Ok(row.generation.checked_sub(1).filter(|below| *below > 0))
    }

    async fn corpora(&self, tenant: &TenantId) -> Result<Vec<CorpusEntry>> {
        self.list_corpora(tenant).await
    }

    async fn documents(
        &self,
        corpus: &CorpusRef,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<DocumentEntry>> {
        self.list_documents(corpus, after, limit).await
    }

    async fn document(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
    ) -> Result<Option<DocumentEntry>> {
        self.find_document(corpus, document).await
    }

    async fn job_started(&self, tenant: &TenantId, stream_sequence: u64) -> Result<u32> {
        let row = sqlx::query(
            "INSERT INTO job_starts (tenant, sequence, starts) VALUES (?, ?, 1) \
             ON CONFLICT (tenant, sequence) DO UPDATE SET starts = starts + 1 RETURNING starts - 1 AS before",
        )
        .bind(tenant.as_str())
        .bind(to_sql(stream_sequence))
        .fetch_one(&self.writer)
        .await
        .map_err(sql_failed)?;
        super::rows::small(&row, "before")
    }

    async fn job_given_back(&self, tenant: &TenantId, stream_sequence: u64) -> Result<()> {
        sqlx::query(
            "UPDATE job_starts SET starts = MAX(starts - 1, 0) WHERE tenant = ? AND sequence = ?",
        )
        .bind(tenant.as_str())
        .bind(to_sql(stream_sequence))
        .execute(&self.writer)
        .await
        .map(|_| ())
        .map_err(sql_failed)
    }

    async fn job_ended(&self, tenant: &TenantId, stream_sequence: u64) -> Result<()> {
        sqlx::query("DELETE FROM job_starts WHERE tenant = ? AND sequence = ?")
            .bind(tenant.as_str())
            .bind(to_sql(stream_sequence))
            .execute(&self.writer)
            .await
            .map(|_| ())
            .map_err(sql_failed)
    }

    async fn highest_sequence(&self) -> Result<u64> {
        let row = sqlx::query(
            "SELECT MAX(COALESCE((SELECT MAX(MAX(sequence, claimed)) FROM documents), 0), \
             COALESCE((SELECT MAX(fence) FROM corpora), 0)) AS highest",
        )
        .fetch_one(&self.readers)
        .await
        .map_err(sql_failed)?;
        super::rows::unsigned(&row, "highest")
    }

    async fn all_corpora(&self) -> Result<Vec<(CorpusRef, CorpusEntry)>> {
        self.list_all_corpora().await
    }

    async fn health(&self) -> Result<()> {
        sqlx::query("SELECT 1")
            .execute(&self.readers)
            .await
            .map(|_| ())
            .map_err(sql_failed)
    }
}
