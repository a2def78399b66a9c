//! The registry over an SQL database: statements that SQLite and Postgres both understand, bound once for each.
//!
//! `sql_registry!` implements the port for a type with the fields `writer` and `readers` (pools). What differs between the two
//! are types of the driver and how a row is locked. Must not know how a database is opened.

/// Implements [`DocumentRegistry`](crate::spi::DocumentRegistry) for `$registry`.
///
/// `$begin` starts a transaction that writes; `$shared` and `$exclusive` are appended to a `SELECT` that locks.
macro_rules! sql_registry {
    ($registry:ty, $database:ty, $row:ty, begin: $begin:literal, shared: $shared:literal, exclusive: $exclusive:literal) => {
        use async_trait::async_trait;
        use sqlx::{Row, Transaction};

        use crate::adapters::registry_rules::{
            self as rules, CorpusRow, Lock, RegistryDatabase, RegistryTransaction, damaged,
            sql_failed, stored_corpus, stored_id, to_sql,
        };
        use crate::adapters::metadata_json;
        use crate::adapters::registry_rows::registry_rows;
        use crate::adapters::result_json;
        use crate::error::{Error, Result};
        use crate::model::{
            CorpusRef, DocumentId, DocumentRow, Hashes, IngestResult, ModelPair, TenantId, Timestamp,
            Written,
        };
        use crate::spi::{Begun, Buried, CorpusEntry, DocumentEntry, DocumentRegistry, Fenced, Finished};

        registry_rows!($row);

        #[async_trait]
        impl RegistryDatabase for $registry {
            async fn begin(&self) -> Result<Box<dyn RegistryTransaction>> {
                let transaction = self.writer.begin_with($begin).await;
                Ok(Box::new(SqlTransaction(transaction.map_err(sql_failed)?)))
            }
        }

        struct SqlTransaction(Transaction<'static, $database>);

        impl SqlTransaction {
            /// The corpus' row under a lock, when it is there.
            async fn find_corpus(
                &mut self,
                corpus: &CorpusRef,
                lock: Lock,
            ) -> Result<Option<CorpusRow>> {
                let sql = match lock {
                    Lock::Shared => concat!(
                        "SELECT generation, fence, state, models, unserved, result FROM corpora WHERE tenant = $1 AND corpus = $2",
                        $shared
                    ),
                    Lock::Exclusive => concat!(
                        "SELECT generation, fence, state, models, unserved, result FROM corpora WHERE tenant = $1 AND corpus = $2",
                        $exclusive
                    ),
                };
                let row = sqlx::query(sql)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .fetch_optional(&mut *self.0)
                    .await
                    .map_err(sql_failed)?;
                let read = |row: $row| -> Result<CorpusRow> {
                    Ok(CorpusRow {
                        generation: small(&row, "generation")?,
                        fence: unsigned(&row, "fence")?,
                        active: text(&row, "state")? == "active",
                        models: models(&row)?,
                        unserved: unsigned(&row, "unserved")? != 0,
                        result: row.try_get("result").map_err(sql_failed)?,
                    })
                };
                row.map(read).transpose()
            }
        }

        #[async_trait]
        impl RegistryTransaction for SqlTransaction {
            async fn corpus(&mut self, corpus: &CorpusRef, lock: Lock) -> Result<CorpusRow> {
                if let Some(row) = self.find_corpus(corpus, lock).await? {
                    return Ok(row);
                }
                sqlx::query(
                    "INSERT INTO corpora (tenant, corpus) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .execute(&mut *self.0)
                .await
                .map_err(sql_failed)?;
                let row = self.find_corpus(corpus, lock).await?;
                row.ok_or_else(|| Error::internal("a corpus' row is gone"))
            }

            async fn document(
                &mut self,
                corpus: &CorpusRef,
                document: &DocumentId,
            ) -> Result<DocumentRow> {
                // A row that isn't there can't be locked: two jobs of a new document would overwrite each other.
                sqlx::query(
                    "INSERT INTO documents (tenant, corpus, document_id, updated_at) VALUES ($1, $2, $3, $4) \
                     ON CONFLICT DO NOTHING",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(document.as_str())
                .bind(Timestamp::now().as_micros())
                .execute(&mut *self.0)
                .await
                .map_err(sql_failed)?;
                let row = sqlx::query(concat!(
                    "SELECT sequence, claimed, live, content_hash, metadata_hash, pipeline_hash, chunks, deleted, \
                     expires_at, metadata, result FROM documents WHERE tenant = $1 AND corpus = $2 AND document_id = $3",
                    $exclusive
                ))
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(document.as_str())
                .fetch_one(&mut *self.0)
                .await
                .map_err(sql_failed)?;
                document_row(&row)
            }

            async fn save(
                &mut self,
                corpus: &CorpusRef,
                document: &DocumentId,
                row: &DocumentRow,
            ) -> Result<()> {
                sqlx::query(
                    "UPDATE documents SET sequence = $4, claimed = $5, live = $6, content_hash = $7, metadata_hash = $8, \
                     pipeline_hash = $9, chunks = $10, deleted = $11, expires_at = $12, metadata = $13, result = $14, \
                     updated_at = $15 WHERE tenant = $1 AND corpus = $2 AND document_id = $3",
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
                .execute(&mut *self.0)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn activate(&mut self, corpus: &CorpusRef, models: &ModelPair) -> Result<()> {
                sqlx::query(
                    "UPDATE corpora SET state = 'active', models = $3 WHERE tenant = $1 AND corpus = $2",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(rules::models_json(models))
                .execute(&mut *self.0)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn chunks_below(&mut self, corpus: &CorpusRef, sequence: u64) -> Result<u32> {
                let row = sqlx::query(
                    "SELECT CAST(COALESCE(SUM(chunks), 0) AS BIGINT) AS chunks FROM documents \
                     WHERE tenant = $1 AND corpus = $2 AND deleted = 0 AND sequence < $3",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(to_sql(sequence))
                .fetch_one(&mut *self.0)
                .await
                .map_err(sql_failed)?;
                small(&row, "chunks")
            }

            async fn set_fence(&mut self, corpus: &CorpusRef, result: &IngestResult) -> Result<()> {
                sqlx::query(
                    "UPDATE corpora SET fence = $3, result = $4 WHERE tenant = $1 AND corpus = $2",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(to_sql(result.sequence))
                .bind(result_json::to_json(result))
                .execute(&mut *self.0)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn in_use(&mut self, corpus: &CorpusRef, sequence: u64) -> Result<bool> {
                let row = sqlx::query(
                    "SELECT 1 FROM documents WHERE tenant = $1 AND corpus = $2 \
                     AND (deleted = 0 OR sequence > $3 OR claimed > $3) LIMIT 1",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(to_sql(sequence))
                .fetch_optional(&mut *self.0)
                .await
                .map_err(sql_failed)?;
                Ok(row.is_some())
            }

            async fn raise_generation(&mut self, corpus: &CorpusRef) -> Result<u32> {
                let row = sqlx::query(rules::RAISE_GENERATION)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .fetch_one(&mut *self.0)
                    .await
                    .map_err(sql_failed)?;
                for table in [rules::FORGET_REBUILT, rules::FORGET_REBUILD] {
                    sqlx::query(table)
                        .bind(corpus.tenant.as_str())
                        .bind(corpus.corpus.as_str())
                        .execute(&mut *self.0)
                        .await
                        .map_err(sql_failed)?;
                }
                small(&row, "generation")
            }

            async fn replaced_generation(&mut self, corpus: &CorpusRef) -> Result<Option<u32>> {
                let row = sqlx::query(
                    "SELECT previous FROM rebuilds WHERE tenant = $1 AND corpus = $2 \
                     AND state NOT IN ('done', 'cancelled')",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .fetch_optional(&mut *self.0)
                .await
                .map_err(sql_failed)?;
                row.map(|row| small(&row, "previous")).transpose()
            }

            async fn commit(self: Box<Self>) -> Result<()> {
                self.0.commit().await.map_err(sql_failed)
            }
        }

        #[async_trait]
        impl DocumentRegistry for $registry {
            async fn corpus_models(&self, corpus: &CorpusRef) -> Result<Option<ModelPair>> {
                let row = sqlx::query(
                    "SELECT models FROM corpora WHERE tenant = $1 AND corpus = $2 AND state = 'active'",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .fetch_optional(&self.readers)
                .await
                .map_err(sql_failed)?;
                row.as_ref().map(models).transpose()
            }

            async fn begin_put(
                &self,
                corpus: &CorpusRef,
                document: &DocumentId,
                hashes: &Hashes,
                models: &ModelPair,
                template: &IngestResult,
            ) -> Result<Begun> {
                rules::put_begun(self, corpus, document, hashes, models, template).await
            }

            async fn begin_delete(
                &self,
                corpus: &CorpusRef,
                document: &DocumentId,
                template: &IngestResult,
            ) -> Result<Begun> {
                rules::delete_begun(self, corpus, document, template).await
            }

            async fn finish_put(
                &self,
                corpus: &CorpusRef,
                document: &DocumentId,
                written: &Written,
            ) -> Result<Finished> {
                rules::put_finished(self, corpus, document, written).await
            }

            async fn raise_fence(
                &self,
                corpus: &CorpusRef,
                template: &IngestResult,
            ) -> Result<Fenced> {
                rules::fence_raised(self, corpus, template).await
            }

            async fn documents_below(
                &self,
                corpus: &CorpusRef,
                sequence: u64,
                after: Option<&DocumentId>,
                limit: u32,
            ) -> Result<Vec<DocumentId>> {
                let rows = sqlx::query(
                    "SELECT document_id FROM documents WHERE tenant = $1 AND corpus = $2 AND sequence <= $3 \
                     AND document_id > $4 ORDER BY document_id LIMIT $5",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(to_sql(sequence))
                .bind(after.map_or("", DocumentId::as_str))
                .bind(i64::from(limit))
                .fetch_all(&self.readers)
                .await
                .map_err(sql_failed)?;
                let id = |row: &$row| stored_id(&text(row, "document_id")?);
                rows.iter().map(id).collect()
            }

            async fn fence_document(
                &self,
                corpus: &CorpusRef,
                document: &DocumentId,
                sequence: u64,
            ) -> Result<Option<Buried>> {
                rules::document_fenced(self, corpus, document, sequence).await
            }

            async fn retire_generation(
                &self,
                corpus: &CorpusRef,
                sequence: u64,
            ) -> Result<Option<u32>> {
                rules::generation_retired(self, corpus, sequence).await
            }

            async fn corpora(&self, tenant: &TenantId) -> Result<Vec<CorpusEntry>> {
                let rows = sqlx::query(rules::CORPORA_OF_TENANT)
                    .bind(tenant.as_str())
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                rows.iter().map(corpus_entry).collect()
            }

            async fn document_count(&self, tenant: &TenantId) -> Result<u64> {
                let row = sqlx::query(
                    "SELECT COUNT(*) AS documents FROM documents WHERE tenant = $1 AND deleted = 0",
                )
                .bind(tenant.as_str())
                .fetch_one(&self.readers)
                .await
                .map_err(sql_failed)?;
                unsigned(&row, "documents")
            }

            async fn documents(
                &self,
                corpus: &CorpusRef,
                after: Option<&DocumentId>,
                limit: u32,
            ) -> Result<Vec<DocumentEntry>> {
                let rows = sqlx::query(rules::DOCUMENTS)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .bind(after.map_or("", DocumentId::as_str))
                    .bind(i64::from(limit))
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                rows.iter().map(document_entry).collect()
            }

            async fn document(
                &self,
                corpus: &CorpusRef,
                document: &DocumentId,
            ) -> Result<Option<DocumentEntry>> {
                let row = sqlx::query(rules::DOCUMENT)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .bind(document.as_str())
                    .fetch_optional(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                row.as_ref().map(document_entry).transpose()
            }

            async fn live_sequence(
                &self,
                corpus: &CorpusRef,
                document: &DocumentId,
            ) -> Result<u64> {
                let row = sqlx::query(
                    "SELECT live FROM documents WHERE tenant = $1 AND corpus = $2 AND document_id = $3",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(document.as_str())
                .fetch_optional(&self.readers)
                .await
                .map_err(sql_failed)?;
                row.map_or(Ok(0), |row| unsigned(&row, "live"))
            }

            async fn job_started(&self, tenant: &TenantId, stream_sequence: u64) -> Result<u32> {
                let row = sqlx::query(
                    "INSERT INTO job_starts (tenant, sequence, starts) VALUES ($1, $2, 1) \
                     ON CONFLICT (tenant, sequence) DO UPDATE SET starts = job_starts.starts + 1 \
                     RETURNING starts - 1 AS before",
                )
                .bind(tenant.as_str())
                .bind(to_sql(stream_sequence))
                .fetch_one(&self.writer)
                .await
                .map_err(sql_failed)?;
                small(&row, "before")
            }

            async fn job_given_back(&self, tenant: &TenantId, stream_sequence: u64) -> Result<()> {
                sqlx::query(
                    "UPDATE job_starts SET starts = starts - 1 WHERE tenant = $1 AND sequence = $2 AND starts > 0",
                )
                .bind(tenant.as_str())
                .bind(to_sql(stream_sequence))
                .execute(&self.writer)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn job_ended(&self, tenant: &TenantId, stream_sequence: u64) -> Result<()> {
                sqlx::query("DELETE FROM job_starts WHERE tenant = $1 AND sequence = $2")
                    .bind(tenant.as_str())
                    .bind(to_sql(stream_sequence))
                    .execute(&self.writer)
                    .await
                    .map(|_| ())
                    .map_err(sql_failed)
            }

            async fn highest_sequence(&self) -> Result<u64> {
                let row = sqlx::query(rules::HIGHEST_SEQUENCE)
                    .fetch_one(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                unsigned(&row, "highest")
            }

            async fn all_corpora(&self) -> Result<Vec<(CorpusRef, CorpusEntry)>> {
                let rows = sqlx::query(rules::ALL_CORPORA)
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                let entry = |row: &$row| {
                    let entry = corpus_entry(row)?;
                    let tenant = TenantId::stored(&text(row, "tenant")?)?;
                    Ok((CorpusRef::new(tenant, entry.corpus.clone()), entry))
                };
                rows.iter().map(entry).collect()
            }

            async fn health(&self) -> Result<()> {
                sqlx::query("SELECT 1")
                    .execute(&self.readers)
                    .await
                    .map(|_| ())
                    .map_err(sql_failed)
            }

            async fn close(&self) -> Result<()> {
                self.readers.close().await;
                self.writer.close().await;
                Ok(())
            }
        }
    };
}

pub(super) use sql_registry;
