//! Runs, holds, acts and due documents over an SQL database, for the same types as
//! [`sql_registry!`](super::registry_statements).
//!
//! Must not know why something is due.

/// Implements [`RetentionRegistry`](crate::spi::RetentionRegistry) for `$registry`; `$now` is the database's clock in
/// microseconds since the epoch.
macro_rules! sql_retention {
    ($registry:ty, $row:ty, exclusive: $exclusive:literal, now: $now:literal) => {
        use crate::adapters::retention_sql::{self as retention, named, runs};
        use crate::model::{
            AdminAct, CorpusName, Hold, HoldScope, Run, RunCounts, RunOrder, RunState,
            TrackingCounts, expire_document,
        };
        use crate::spi::{Ledger, RetentionRegistry};

        fn run_of(row: &$row) -> Result<Run> {
            let days: Option<i64> = row.try_get("days").map_err(sql_failed)?;
            let name = text(row, "state")?;
            Ok(Run {
                key: text(row, "run_key")?,
                order: RunOrder {
                    tenant: named(&text(row, "tenant")?, TenantId::stored)?,
                    corpus: named(&text(row, "corpus")?, stored_corpus)?,
                    days: days.and_then(|days| u32::try_from(days).ok()),
                    force: unsigned(row, "force")? != 0,
                    actor: text(row, "actor")?,
                },
                state: RunState::parse(&name)
                    .ok_or_else(|| Error::internal("the registry holds a run in no known state"))?,
                ordered_at: time(row, "ordered_at")?.unwrap_or(Timestamp::from_micros(0)),
                counts: RunCounts {
                    tracking: TrackingCounts {
                        retrievals: unsigned(row, "retrievals")?,
                        chunks: unsigned(row, "chunks")?,
                        documents: unsigned(row, "documents")?,
                        feedback: unsigned(row, "feedback")?,
                    },
                    expired: unsigned(row, "expired")?,
                    tombstones: unsigned(row, "tombstones")?,
                },
                notes: serde_json::from_str(&text(row, "notes")?)
                    .map_err(|e| damaged("notes that can't be read", e))?,
            })
        }

        fn scope_of(row: &$row) -> Result<HoldScope> {
            Ok(HoldScope {
                tenant: TenantId::stored(&text(row, "tenant")?)?,
                corpus: named(&text(row, "corpus")?, stored_corpus)?,
                document: named(&text(row, "document_id")?, stored_id)?,
            })
        }

        fn address(row: &$row) -> Result<(CorpusRef, DocumentId)> {
            let tenant = TenantId::stored(&text(row, "tenant")?)?;
            let corpus = CorpusRef::new(tenant, stored_corpus(&text(row, "corpus")?)?);
            Ok((corpus, stored_id(&text(row, "document_id")?)?))
        }

        impl SqlTransaction {
            /// Adds to one of a run's counters.
            async fn count(&mut self, ledger: &Ledger, statement: &'static str, rows: u64) -> Result<()> {
                sqlx::query(statement)
                    .bind(&ledger.run)
                    .bind(to_sql(rows))
                    .execute(&mut *self.0)
                    .await
                    .map(|_| ())
                    .map_err(sql_failed)
            }
        }

        #[async_trait]
        impl RetentionRegistry for $registry {
            async fn order_run(&self, key: &str, order: &RunOrder) -> Result<Run> {
                sqlx::query(concat!(
                    "INSERT INTO retention_runs (run_key, ordered_at, tenant, corpus, days, force, actor) VALUES ($1, ",
                    $now,
                    ", $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
                ))
                .bind(key)
                .bind(order.tenant.as_ref().map_or("", TenantId::as_str))
                .bind(order.corpus.as_ref().map_or("", CorpusName::as_str))
                .bind(order.days.map(i64::from))
                .bind(i64::from(order.force))
                .bind(&order.actor)
                .execute(&self.writer)
                .await
                .map_err(sql_failed)?;
                let run = RetentionRegistry::run(self, key).await?;
                run.ok_or_else(|| Error::internal("a run that was just ordered is gone"))
            }

            async fn run(&self, key: &str) -> Result<Option<Run>> {
                let row = sqlx::query(runs!("WHERE run_key = $1"))
                    .bind(key)
                    .fetch_optional(&self.writer)
                    .await
                    .map_err(sql_failed)?;
                row.as_ref().map(run_of).transpose()
            }

            async fn runs(&self, limit: u32) -> Result<Vec<Run>> {
                let rows = sqlx::query(runs!("ORDER BY ordered_at DESC, run_key LIMIT $1"))
                    .bind(i64::from(limit))
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                rows.iter().map(run_of).collect()
            }

            async fn take_run(&self, owner: &str, lease: Duration) -> Result<Option<Run>> {
                let mut transaction = self.changing().await?;
                // All of them are locked, so that two workers can't take two.
                let rows = sqlx::query(runs!(concat!("WHERE state = 'open' ORDER BY ordered_at, run_key", $exclusive)))
                    .fetch_all(&mut *transaction.0)
                    .await
                    .map_err(sql_failed)?;
                let now = sqlx::query(concat!("SELECT ", $now, " AS now"))
                    .fetch_one(&mut *transaction.0)
                    .await
                    .map_err(sql_failed)?;
                let now = unsigned(&now, "now")?;
                for row in &rows {
                    if unsigned(row, "leased_until")? > now && text(row, "owner")? != owner {
                        return Ok(None);
                    }
                }
                let Some(run) = rows.first().map(run_of).transpose()? else {
                    return Ok(None);
                };
                sqlx::query("UPDATE retention_runs SET owner = $2, leased_until = $3 WHERE run_key = $1")
                    .bind(&run.key)
                    .bind(owner)
                    .bind(to_sql(now) + i64::try_from(lease.as_micros()).unwrap_or(i64::MAX / 2))
                    .execute(&mut *transaction.0)
                    .await
                    .map_err(sql_failed)?;
                transaction.0.commit().await.map_err(sql_failed)?;
                Ok(Some(run))
            }

            async fn keep_run(&self, key: &str, owner: &str, lease: Duration) -> Result<bool> {
                let kept = sqlx::query(concat!(
                    "UPDATE retention_runs SET leased_until = ", $now,
                    " + $3 WHERE run_key = $1 AND owner = $2 AND state = 'open'"
                ))
                .bind(key)
                .bind(owner)
                .bind(i64::try_from(lease.as_micros()).unwrap_or(i64::MAX / 2))
                .execute(&self.writer)
                .await
                .map_err(sql_failed)?;
                Ok(kept.rows_affected() > 0)
            }

            async fn note_run(&self, key: &str, note: &str) -> Result<()> {
                let mut transaction = self.changing().await?;
                let row = sqlx::query(concat!(
                    "SELECT notes FROM retention_runs WHERE run_key = $1 AND state = 'open'",
                    $exclusive
                ))
                .bind(key)
                .fetch_optional(&mut *transaction.0)
                .await
                .map_err(sql_failed)?;
                let Some(row) = row else {
                    return Ok(());
                };
                let mut notes: Vec<String> = serde_json::from_str(&text(&row, "notes")?)
                    .map_err(|e| damaged("notes that can't be read", e))?;
                if notes.len() >= retention::MOST_NOTES || notes.iter().any(|known| known == note) {
                    return Ok(());
                }
                notes.push(note.to_owned());
                sqlx::query("UPDATE retention_runs SET notes = $2 WHERE run_key = $1")
                    .bind(key)
                    .bind(serde_json::json!(notes).to_string())
                    .execute(&mut *transaction.0)
                    .await
                    .map_err(sql_failed)?;
                transaction.0.commit().await.map_err(sql_failed)
            }

            async fn end_run(&self, key: &str, owner: &str, state: RunState) -> Result<()> {
                sqlx::query(concat!(
                    "UPDATE retention_runs SET state = $3, leased_until = 0, ended_at = ", $now,
                    " WHERE run_key = $1 AND owner = $2 AND state = 'open'"
                ))
                .bind(key)
                .bind(owner)
                .bind(state.name())
                .execute(&self.writer)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn add_hold(&self, hold: &Hold) -> Result<()> {
                let scope = &hold.scope;
                sqlx::query(
                    "INSERT INTO legal_holds (tenant, hold_id, corpus, document_id, reason, actor, since) \
                     VALUES ($1, $2, $3, $4, $5, $6, $7)",
                )
                .bind(scope.tenant.as_str())
                .bind(&hold.id)
                .bind(scope.corpus.as_ref().map_or("", CorpusName::as_str))
                .bind(scope.document.as_ref().map_or("", DocumentId::as_str))
                .bind(&hold.reason)
                .bind(&hold.actor)
                .bind(hold.since.as_micros())
                .execute(&self.writer)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn holds(&self, tenant: &TenantId) -> Result<Vec<Hold>> {
                let rows = sqlx::query(
                    "SELECT tenant, hold_id, corpus, document_id, reason, actor, since FROM legal_holds \
                     WHERE tenant = $1 AND released_at IS NULL ORDER BY since, hold_id",
                )
                .bind(tenant.as_str())
                .fetch_all(&self.writer)
                .await
                .map_err(sql_failed)?;
                let hold = |row: &$row| {
                    Ok(Hold {
                        id: text(row, "hold_id")?,
                        scope: scope_of(row)?,
                        reason: text(row, "reason")?,
                        actor: text(row, "actor")?,
                        since: time(row, "since")?.unwrap_or(Timestamp::from_micros(0)),
                    })
                };
                rows.iter().map(hold).collect()
            }

            async fn release_hold(
                &self,
                tenant: &TenantId,
                id: &str,
                actor: &str,
            ) -> Result<Option<HoldScope>> {
                let row = sqlx::query(concat!(
                    "UPDATE legal_holds SET released_by = $3, released_at = ", $now,
                    " WHERE tenant = $1 AND hold_id = $2 AND released_at IS NULL RETURNING tenant, corpus, document_id"
                ))
                .bind(tenant.as_str())
                .bind(id)
                .bind(actor)
                .fetch_optional(&self.writer)
                .await
                .map_err(sql_failed)?;
                row.as_ref().map(scope_of).transpose()
            }

            async fn record_act(&self, act: &AdminAct) -> Result<()> {
                sqlx::query(concat!(
                    "INSERT INTO admin_audit (at, action, actor, tenant, corpus, details) VALUES (", $now,
                    ", $1, $2, $3, $4, $5)"
                ))
                .bind(&act.action)
                .bind(&act.actor)
                .bind(&act.tenant)
                .bind(&act.corpus)
                .bind(&act.details)
                .execute(&self.writer)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn acts(&self, tenant: &str, limit: u32) -> Result<Vec<(Timestamp, AdminAct)>> {
                let rows = sqlx::query(
                    "SELECT at, action, actor, tenant, corpus, details FROM admin_audit WHERE tenant = $1 \
                     ORDER BY act_id DESC LIMIT $2",
                )
                .bind(tenant)
                .bind(i64::from(limit))
                .fetch_all(&self.readers)
                .await
                .map_err(sql_failed)?;
                let act = |row: &$row| {
                    let at = time(row, "at")?.unwrap_or(Timestamp::from_micros(0));
                    let act = AdminAct {
                        action: text(row, "action")?,
                        actor: text(row, "actor")?,
                        tenant: text(row, "tenant")?,
                        corpus: text(row, "corpus")?,
                        details: text(row, "details")?,
                    };
                    Ok((at, act))
                };
                rows.iter().map(act).collect()
            }

            async fn expired(
                &self,
                now: Timestamp,
                after: Option<&(CorpusRef, DocumentId)>,
                limit: u32,
            ) -> Result<Vec<(CorpusRef, DocumentId)>> {
                let rows = sqlx::query(retention::EXPIRED)
                    .bind(now.as_micros())
                    .bind(after.map_or("", |(corpus, _)| corpus.tenant.as_str()))
                    .bind(after.map_or("", |(corpus, _)| corpus.corpus.as_str()))
                    .bind(after.map_or("", |(_, document)| document.as_str()))
                    .bind(i64::from(limit))
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                rows.iter().map(address).collect()
            }

            async fn expire(
                &self,
                corpus: &CorpusRef,
                document: &DocumentId,
                now: Timestamp,
                ledger: &Ledger,
            ) -> Result<Option<Buried>> {
                let mut transaction = self.changing().await?;
                let Some(found) = transaction.find_corpus(corpus, Lock::Shared).await? else {
                    return Ok(None);
                };
                let mut row = RegistryTransaction::document(&mut transaction, corpus, document).await?;
                let held = sqlx::query(retention::IS_HELD)
                    .bind(corpus.tenant.as_str())
                    .bind(corpus.corpus.as_str())
                    .bind(document.as_str())
                    .fetch_optional(&mut *transaction.0)
                    .await
                    .map_err(sql_failed)?;
                if held.is_some() || !expire_document(&mut row, now) {
                    return Ok(None);
                }
                transaction.save(corpus, document, &row).await?;
                sqlx::query(
                    "INSERT INTO cleanups (tenant, corpus, document_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(document.as_str())
                .execute(&mut *transaction.0)
                .await
                .map_err(sql_failed)?;
                let one = "UPDATE retention_runs SET expired = expired + $2 WHERE run_key = $1";
                transaction.count(ledger, one, 1).await?;
                transaction.0.commit().await.map_err(sql_failed)?;
                Ok(Some(Buried {
                    live: row.live,
                    generation: found.generation,
                    unserved: found.unserved,
                }))
            }

            async fn uncleaned(&self, limit: u32) -> Result<Vec<(CorpusRef, DocumentId, Buried)>> {
                let rows = sqlx::query(
                    "SELECT n.tenant, n.corpus, n.document_id, d.live, c.generation, c.unserved FROM cleanups n \
                     JOIN corpora c ON c.tenant = n.tenant AND c.corpus = n.corpus \
                     JOIN documents d ON d.tenant = n.tenant AND d.corpus = n.corpus AND d.document_id = n.document_id \
                     ORDER BY n.tenant, n.corpus, n.document_id LIMIT $1",
                )
                .bind(i64::from(limit))
                .fetch_all(&self.writer)
                .await
                .map_err(sql_failed)?;
                let read = |row: &$row| {
                    let (corpus, document) = address(row)?;
                    let buried = Buried {
                        live: unsigned(row, "live")?,
                        generation: small(row, "generation")?,
                        unserved: unsigned(row, "unserved")? != 0,
                    };
                    Ok((corpus, document, buried))
                };
                rows.iter().map(read).collect()
            }

            async fn cleaned(&self, corpus: &CorpusRef, document: &DocumentId) -> Result<()> {
                sqlx::query(
                    "DELETE FROM cleanups WHERE tenant = $1 AND corpus = $2 AND document_id = $3",
                )
                .bind(corpus.tenant.as_str())
                .bind(corpus.corpus.as_str())
                .bind(document.as_str())
                .execute(&self.writer)
                .await
                .map(|_| ())
                .map_err(sql_failed)
            }

            async fn drop_tombstones(
                &self,
                below: u64,
                unchanged_since: Timestamp,
                limit: u32,
                ledger: &Ledger,
            ) -> Result<u64> {
                let mut transaction = self.changing().await?;
                let dropped = sqlx::query(retention::DROP_TOMBSTONES)
                    .bind(to_sql(below))
                    .bind(unchanged_since.as_micros())
                    .bind(i64::from(limit))
                    .execute(&mut *transaction.0)
                    .await
                    .map_err(sql_failed)?
                    .rows_affected();
                let some = "UPDATE retention_runs SET tombstones = tombstones + $2 WHERE run_key = $1";
                transaction.count(ledger, some, dropped).await?;
                transaction.0.commit().await.map_err(sql_failed)?;
                Ok(dropped)
            }

            async fn forget_tombstones(&self, tenant: &TenantId, sequence: u64) -> Result<u64> {
                let forgotten = sqlx::query(
                    retention::FORGET_TOMBSTONES,
                )
                .bind(tenant.as_str())
                .bind(to_sql(sequence))
                .execute(&self.writer)
                .await
                .map_err(sql_failed)?;
                for statement in retention::FORGET {
                    sqlx::query(statement)
                        .bind(tenant.as_str())
                        .execute(&self.writer)
                        .await
                        .map_err(sql_failed)?;
                }
                Ok(forgotten.rows_affected())
            }

            async fn known_corpora(&self, tenant: &TenantId) -> Result<Vec<CorpusName>> {
                let rows = sqlx::query("SELECT corpus FROM corpora WHERE tenant = $1 ORDER BY corpus")
                    .bind(tenant.as_str())
                    .fetch_all(&self.readers)
                    .await
                    .map_err(sql_failed)?;
                let name = |row: &$row| stored_corpus(&text(row, "corpus")?);
                rows.iter().map(name).collect()
            }
        }
    };
}

pub(super) use sql_retention;
