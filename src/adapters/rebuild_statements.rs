//! Rebuilds over an SQL database, for the same types as [`sql_registry!`](super::registry_statements).
//!
//! A transaction locks the corpus' row first, then the rebuild's. Must not know what is copied.

/// Up to date = copied at the sequence that is being served; what was never begun and is deleted needs nothing.
pub(super) const BEHIND: &str = "SELECT COUNT(*) AS behind FROM documents d LEFT JOIN rebuilt_documents r \
    ON r.tenant = d.tenant AND r.corpus = d.corpus AND r.document_id = d.document_id \
    WHERE d.tenant = $1 AND d.corpus = $2 AND ((r.live IS NULL AND d.deleted = 0) OR r.live <> d.live)";
pub(super) const UNBUILT: &str = "SELECT d.document_id, d.live, d.expires_at, \
    CASE WHEN d.deleted = 1 THEN 0 ELSE d.chunks END AS chunks, \
    CAST(CASE WHEN d.claimed > d.sequence THEN 1 ELSE 0 END AS BIGINT) AS is_open \
    FROM documents d LEFT JOIN rebuilt_documents r \
    ON r.tenant = d.tenant AND r.corpus = d.corpus AND r.document_id = d.document_id \
    WHERE d.tenant = $1 AND d.corpus = $2 AND d.document_id > $3 \
    AND ((r.live IS NULL AND d.deleted = 0) OR r.live <> d.live) ORDER BY d.document_id LIMIT $4";
pub(super) const PROGRESS: &str = "SELECT COUNT(*) AS documents, \
    CAST(COALESCE(SUM(CASE WHEN r.live = d.live THEN 1 ELSE 0 END), 0) AS BIGINT) AS built, \
    CAST(COALESCE(SUM(r.missing), 0) AS BIGINT) AS missing \
    FROM documents d LEFT JOIN rebuilt_documents r \
    ON r.tenant = d.tenant AND r.corpus = d.corpus AND r.document_id = d.document_id \
    WHERE d.tenant = $1 AND d.corpus = $2 AND d.deleted = 0";

/// Implements [`RebuildRegistry`](crate::spi::RebuildRegistry) for `$registry`; `$now` is the database's clock in
/// microseconds since the epoch.
macro_rules! sql_rebuilds {
    ($registry:ty, $database:ty, $row:ty, begin: $begin:literal, exclusive: $exclusive:literal, now: $now:literal) => {
        use std::time::Duration;

        use crate::adapters::rebuild_statements::{BEHIND, PROGRESS, UNBUILT};
        use crate::spi::{Rebuild, RebuildProgress, RebuildRegistry, RebuildState, Switch, Unbuilt};

        /// A rebuild's columns, `drop_due` by the database's clock.
        macro_rules! rebuilds {
            ($rest:expr) => {
                concat!(
                    "SELECT tenant, corpus, generation, previous, models, state, problem, owner, started_at, \
                     CAST(CASE WHEN drop_at <= ",
                    $now,
                    " THEN 1 ELSE 0 END AS BIGINT) AS drop_due FROM rebuilds ",
                    $rest
                )
            };
        }

        fn rebuild_of(row: &$row) -> Result<Rebuild> {
            let tenant = TenantId::stored(&text(row, "tenant")?)?;
            let name = text(row, "state")?;
            let state = RebuildState::parse(&name)
                .ok_or_else(|| Error::internal("the registry holds a rebuild in no known state"))?;
            Ok(Rebuild {
                corpus: CorpusRef::new(tenant, stored_corpus(&text(row, "corpus")?)?),
                generation: small(row, "generation")?,
                previous: small(row, "previous")?,
                models: models(row)?,
                state,
                problem: text(row, "problem")?,
                drop_due: unsigned(row, "drop_due")? != 0,
                started_at: time(row, "started_at")?.unwrap_or(Timestamp::from_micros(0)),
            })
        }

        impl SqlTransaction {
            async fn rebuild(&mut self, corpus: &CorpusRef) -> Result<Option<(Rebuild, String)>> {
                let sql = rebuilds!(concat!("WHERE tenant = $1 AND corpus = $2", $exclusive));
                let row = sqlx::query(sql)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .fetch_optional(&mut *self.0)
                    .await
                    .map_err(sql_failed)?;
                let read = |row: $row| Ok((rebuild_of(&row)?, text(&row, "owner")?));
                row.map(read).transpose()
            }

            /// The rebuild of this generation, when it is being built by this worker.
            async fn building(
                &mut self,
                corpus: &CorpusRef,
                generation: u32,
                owner: &str,
            ) -> Result<Option<Rebuild>> {
                let found = self.rebuild(corpus).await?;
                let own = found.filter(|(rebuild, holder)| {
                    rebuild.generation == generation
                        && rebuild.state == RebuildState::Building
                        && holder == owner
                });
                Ok(own.map(|(rebuild, _)| rebuild))
            }

            async fn forget_copies(&mut self, corpus: &CorpusRef) -> Result<()> {
                sqlx::query(rules::FORGET_REBUILT)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .execute(&mut *self.0)
                    .await
                    .map(|_| ())
                    .map_err(sql_failed)
            }
        }

        impl $registry {
            async fn changing(&self) -> Result<SqlTransaction> {
                let transaction = self.writer.begin_with($begin).await;
                Ok(SqlTransaction(transaction.map_err(sql_failed)?))
            }
        }

        #[async_trait]
        impl RebuildRegistry for $registry {
            async fn begin_rebuild(
                &self,
                corpus: &CorpusRef,
                models: &ModelPair,
            ) -> Result<Option<Rebuild>> {
                let mut transaction = self.changing().await?;
                let Some(found) = transaction.find_corpus(corpus, Lock::Exclusive).await? else {
                    return Ok(None);
                };
                let before = transaction.rebuild(corpus).await?.map(|(rebuild, _)| rebuild);
                if before.as_ref().is_some_and(|rebuild| !rebuild.state.is_over()) {
                    return Ok(before);
                }
                if !found.active {
                    return Ok(None);
                }
                let ever = before.map_or(0, |rebuild| rebuild.generation);
                transaction.forget_copies(corpus).await?;
                sqlx::query(concat!(
                    "INSERT INTO rebuilds (tenant, corpus, generation, previous, models, state, started_at, updated_at) \
                     VALUES ($1, $2, $3, $4, $5, 'building', ", $now, ", ", $now, ") \
                     ON CONFLICT (tenant, corpus) DO UPDATE SET generation = excluded.generation, \
                     previous = excluded.previous, models = excluded.models, state = excluded.state, owner = '', \
                     leased_until = 0, drop_at = NULL, problem = '', started_at = excluded.started_at, \
                     updated_at = excluded.updated_at"
                ))
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(i64::from(found.generation.max(ever)) + 1)
                .bind(i64::from(found.generation))
                .bind(rules::models_json(models))
                .execute(&mut *transaction.0)
                .await
                .map_err(sql_failed)?;
                let begun = transaction.rebuild(corpus).await?;
                transaction.0.commit().await.map_err(sql_failed)?;
                Ok(begun.map(|(rebuild, _)| rebuild))
            }

            async fn rebuild(
                &self,
                corpus: &CorpusRef,
            ) -> Result<Option<(Rebuild, RebuildProgress)>> {
                let row = sqlx::query(rebuilds!("WHERE tenant = $1 AND corpus = $2"))
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .fetch_optional(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                let Some(row) = row else {
                    return Ok(None);
                };
                let counts = sqlx::query(PROGRESS)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .fetch_one(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                let progress = RebuildProgress {
                    documents: unsigned(&counts, "documents")?,
                    built: unsigned(&counts, "built")?,
                    missing: unsigned(&counts, "missing")?,
                };
                Ok(Some((rebuild_of(&row)?, progress)))
            }

            async fn cancel_rebuild(&self, corpus: &CorpusRef) -> Result<Option<Rebuild>> {
                sqlx::query(concat!(
                    "UPDATE rebuilds SET state = 'cancelling', updated_at = ", $now,
                    " WHERE tenant = $1 AND corpus = $2 AND state = 'building'"
                ))
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .execute(&self.writer)
                .await
                .map_err(sql_failed)?;
                Ok(RebuildRegistry::rebuild(self, corpus).await?.map(|(rebuild, _)| rebuild))
            }

            async fn free_rebuilds(&self) -> Result<Vec<Rebuild>> {
                let rows = sqlx::query(rebuilds!(concat!(
                    "WHERE state NOT IN ('done', 'cancelled') AND leased_until <= ", $now,
                    " ORDER BY started_at, tenant, corpus LIMIT 100"
                )))
                .fetch_all(&self.readers)
                .await
                .map_err(sql_failed)?;
                rows.iter().map(rebuild_of).collect()
            }

            async fn lease_rebuild(
                &self,
                corpus: &CorpusRef,
                owner: &str,
                lease: Duration,
            ) -> Result<Option<Rebuild>> {
                let taken = sqlx::query(concat!(
                    "UPDATE rebuilds SET owner = $3, leased_until = ", $now, " + $4, updated_at = ", $now,
                    " WHERE tenant = $1 AND corpus = $2 AND state NOT IN ('done', 'cancelled') \
                     AND (owner = $3 OR leased_until <= ", $now, ")"
                ))
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(owner)
                .bind(i64::try_from(lease.as_micros()).unwrap_or(i64::MAX))
                .execute(&self.writer)
                .await
                .map_err(sql_failed)?;
                if taken.rows_affected() == 0 {
                    return Ok(None);
                }
                let row = sqlx::query(rebuilds!("WHERE tenant = $1 AND corpus = $2"))
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .fetch_optional(&self.writer)
                    .await
                    .map_err(sql_failed)?;
                row.as_ref().map(rebuild_of).transpose()
            }

            async fn release_rebuild(&self, corpus: &CorpusRef, owner: &str) -> Result<()> {
                sqlx::query(
                    "UPDATE rebuilds SET leased_until = 0 WHERE tenant = $1 AND corpus = $2 AND owner = $3",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(owner)
                .execute(&self.writer)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn note_problem(
                &self,
                corpus: &CorpusRef,
                owner: &str,
                problem: &str,
            ) -> Result<()> {
                sqlx::query(
                    "UPDATE rebuilds SET problem = $4 WHERE tenant = $1 AND corpus = $2 AND owner = $3 \
                     AND state NOT IN ('done', 'cancelled')",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(owner)
                .bind(problem)
                .execute(&self.writer)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn move_rebuild(
                &self,
                corpus: &CorpusRef,
                owner: &str,
                generation: u32,
            ) -> Result<bool> {
                let mut transaction = self.changing().await?;
                transaction.find_corpus(corpus, Lock::Exclusive).await?;
                let moved = sqlx::query(
                    "UPDATE rebuilds SET generation = $4 WHERE tenant = $1 AND corpus = $2 AND owner = $3 \
                     AND state = 'building'",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(owner)
                .bind(i64::from(generation))
                .execute(&mut *transaction.0)
                .await
                .map_err(sql_failed)?;
                if moved.rows_affected() == 0 {
                    return Ok(false);
                }
                transaction.forget_copies(corpus).await?;
                transaction.0.commit().await.map_err(sql_failed)?;
                Ok(true)
            }

            async fn unbuilt(
                &self,
                corpus: &CorpusRef,
                after: Option<&DocumentId>,
                limit: u32,
            ) -> Result<Vec<Unbuilt>> {
                let rows = sqlx::query(UNBUILT)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .bind(after.map_or("", DocumentId::as_str))
                    .bind(i64::from(limit))
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                let read = |row: &$row| {
                    Ok(Unbuilt {
                        document: stored_id(&text(row, "document_id")?)?,
                        live: unsigned(row, "live")?,
                        chunks: small(row, "chunks")?,
                        open: unsigned(row, "is_open")? != 0,
                        expires_at: time(row, "expires_at")?,
                    })
                };
                rows.iter().map(read).collect()
            }

            async fn begin_copies(
                &self,
                corpus: &CorpusRef,
                generation: u32,
                owner: &str,
                documents: &[DocumentId],
            ) -> Result<bool> {
                let mut transaction = self.changing().await?;
                if transaction.building(corpus, generation, owner).await?.is_none() {
                    return Ok(false);
                }
                for document in documents {
                    sqlx::query(
                        "INSERT INTO rebuilt_documents (tenant, corpus, document_id, live) VALUES ($1, $2, $3, 0) \
                         ON CONFLICT DO NOTHING",
                    )
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .bind(document.as_str())
                    .execute(&mut *transaction.0)
                    .await
                    .map_err(sql_failed)?;
                }
                transaction.0.commit().await.map_err(sql_failed)?;
                Ok(true)
            }

            async fn end_copy(
                &self,
                corpus: &CorpusRef,
                generation: u32,
                document: &DocumentId,
                live: u64,
                missing: u32,
            ) -> Result<()> {
                sqlx::query(
                    "UPDATE rebuilt_documents SET live = $4, missing = $5 WHERE tenant = $1 AND corpus = $2 \
                     AND document_id = $3 AND EXISTS (SELECT 1 FROM rebuilds r WHERE r.tenant = $1 AND r.corpus = $2 \
                     AND r.generation = $6 AND r.state = 'building')",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(document.as_str())
                .bind(to_sql(live))
                .bind(i64::from(missing))
                .bind(i64::from(generation))
                .execute(&self.writer)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn switch_rebuild(
                &self,
                corpus: &CorpusRef,
                generation: u32,
                owner: &str,
                grace: Duration,
            ) -> Result<Switch> {
                let mut transaction = self.changing().await?;
                // Every change of a document holds this row shared: what is counted below can't change before the commit.
                transaction.find_corpus(corpus, Lock::Exclusive).await?;
                let Some(rebuild) = transaction.building(corpus, generation, owner).await? else {
                    return Ok(Switch::Lost);
                };
                let row = sqlx::query(BEHIND)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .fetch_one(&mut *transaction.0)
                    .await
                    .map_err(sql_failed)?;
                let behind = unsigned(&row, "behind")?;
                if behind > 0 {
                    return Ok(Switch::Behind(behind));
                }
                sqlx::query(
                    "UPDATE corpora SET generation = $3, models = $4, unserved = 1 WHERE tenant = $1 AND corpus = $2",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(i64::from(generation))
                .bind(rules::models_json(&rebuild.models))
                .execute(&mut *transaction.0)
                .await
                .map_err(sql_failed)?;
                sqlx::query(concat!(
                    "UPDATE rebuilds SET state = 'switched', problem = '', drop_at = ", $now, " + $3 \
                     WHERE tenant = $1 AND corpus = $2"
                ))
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(i64::try_from(grace.as_micros()).unwrap_or(i64::MAX))
                .execute(&mut *transaction.0)
                .await
                .map_err(sql_failed)?;
                transaction.0.commit().await.map_err(sql_failed)?;
                Ok(Switch::Switched)
            }

            async fn note_served(&self, corpus: &CorpusRef, generation: u32) -> Result<()> {
                sqlx::query(
                    "UPDATE corpora SET unserved = 0 WHERE tenant = $1 AND corpus = $2 AND generation = $3",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(i64::from(generation))
                .execute(&self.writer)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn end_rebuild(
                &self,
                corpus: &CorpusRef,
                generation: u32,
                state: RebuildState,
            ) -> Result<()> {
                let mut transaction = self.changing().await?;
                transaction.find_corpus(corpus, Lock::Exclusive).await?;
                let ended = sqlx::query(concat!(
                    "UPDATE rebuilds SET state = $4, problem = '', leased_until = 0, updated_at = ", $now,
                    " WHERE tenant = $1 AND corpus = $2 AND generation = $3"
                ))
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(i64::from(generation))
                .bind(state.name())
                .execute(&mut *transaction.0)
                .await
                .map_err(sql_failed)?;
                if ended.rows_affected() > 0 {
                    transaction.forget_copies(corpus).await?;
                }
                transaction.0.commit().await.map_err(sql_failed)
            }
        }
    };
}

pub(super) use sql_rebuilds;
