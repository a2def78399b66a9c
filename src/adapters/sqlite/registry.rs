//! The port over a SQLite file. A transaction that writes holds the file's one write lock, so its rows need no other.

use sqlx::Sqlite;
use sqlx::sqlite::SqliteRow;

use super::SqliteRegistry;
use crate::adapters::rebuild_statements::sql_rebuilds;
use crate::adapters::registry_statements::sql_registry;
use crate::adapters::retention_statements::sql_retention;

sql_registry!(SqliteRegistry, Sqlite, SqliteRow, begin: "BEGIN IMMEDIATE", shared: "", exclusive: "");

sql_rebuilds!(SqliteRegistry, Sqlite, SqliteRow, begin: "BEGIN IMMEDIATE", exclusive: "",
    now: "CAST(ROUND(unixepoch('subsec') * 1000000) AS INTEGER)");

sql_retention!(SqliteRegistry, SqliteRow, exclusive: "",
    now: "CAST(ROUND(unixepoch('subsec') * 1000000) AS INTEGER)");
