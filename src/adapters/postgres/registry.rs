//! The port over Postgres. Rows are locked: a corpus' row shared by puts, alone by its deletion; a document's row alone.

use sqlx::Postgres;
use sqlx::postgres::PgRow;

use super::PostgresRegistry;
use crate::adapters::registry_statements::sql_registry;

sql_registry!(PostgresRegistry, Postgres, PgRow, begin: "BEGIN", shared: " FOR SHARE", exclusive: " FOR UPDATE");
