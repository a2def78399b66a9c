//! The port over Postgres. Rows are locked: a corpus' row shared by puts, alone by its deletion; a document's row alone.

use sqlx::Postgres;
use sqlx::postgres::PgRow;

use super::PostgresRegistry;
use crate::adapters::rebuild_statements::sql_rebuilds;
use crate::adapters::registry_statements::sql_registry;
use crate::adapters::retention_statements::sql_retention;

sql_registry!(PostgresRegistry, Postgres, PgRow, begin: "BEGIN", shared: " FOR SHARE", exclusive: " FOR UPDATE");

sql_rebuilds!(PostgresRegistry, Postgres, PgRow, begin: "BEGIN", exclusive: " FOR UPDATE",
    now: "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)");

sql_retention!(PostgresRegistry, PgRow, exclusive: " FOR UPDATE",
    now: "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)");
