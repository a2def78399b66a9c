//! The tracker of retrievals over Postgres. A judgement shares its retrieval's row; a purge takes it alone.

use sqlx::Postgres;
use sqlx::postgres::PgRow;

use super::PostgresTracker;
use crate::adapters::tracker_analysis::sql_analysis;
use crate::adapters::tracker_purging::sql_purge;
use crate::adapters::tracker_statements::sql_tracker;

sql_tracker!(
    PostgresTracker,
    Postgres,
    PgRow,
    begin: "BEGIN",
    share: " FOR SHARE",
    ids: "= ANY(ARRAY(SELECT id::uuid FROM jsonb_array_elements_text($2::jsonb) AS ids (id)))",
    now: "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) AS now"
);
sql_purge!(
    PostgresTracker,
    Postgres,
    PgRow,
    begin: "BEGIN",
    alone: " FOR UPDATE",
    ids: "= ANY(ARRAY(SELECT id::uuid FROM jsonb_array_elements_text($2::jsonb) AS ids (id)))",
    held: "= ANY(ARRAY(SELECT id FROM jsonb_array_elements_text($4::jsonb) AS ids (id)))"
);
sql_analysis!(PostgresTracker, PgRow);

/// Figures over millions of rows take longer than a request would wait for.
const PATIENCE: &str = "SET LOCAL statement_timeout = '5min'";

impl PostgresTracker {
    /// Statements of it see one state of the database.
    pub(super) async fn snapshot(&self) -> Result<Transaction<'static, Postgres>> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let begun = self.readers.begin_with(begin).await;
        let mut transaction = begun.map_err(sql_failed)?;
        let patient = sqlx::query(PATIENCE).execute(&mut *transaction).await;
        patient.map_err(sql_failed)?;
        Ok(transaction)
    }
}
