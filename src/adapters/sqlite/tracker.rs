//! The tracker of retrievals over a SQLite file. A transaction that writes holds the file's one write lock.

use sqlx::Sqlite;
use sqlx::sqlite::SqliteRow;

use super::SqliteTracker;
use crate::adapters::tracker_analysis::sql_analysis;
use crate::adapters::tracker_purging::sql_purge;
use crate::adapters::tracker_statements::sql_tracker;

sql_tracker!(
    SqliteTracker,
    Sqlite,
    SqliteRow,
    begin: "BEGIN IMMEDIATE",
    share: "",
    ids: "IN (SELECT unhex(value) FROM json_each($2))",
    now: "SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now"
);
sql_purge!(
    SqliteTracker,
    Sqlite,
    SqliteRow,
    begin: "BEGIN IMMEDIATE",
    alone: "",
    ids: "IN (SELECT unhex(value) FROM json_each($2))",
    held: "IN (SELECT value FROM json_each($4))"
);
sql_analysis!(SqliteTracker, SqliteRow);

impl SqliteTracker {
    /// Statements of it see one state of the file.
    pub(super) async fn snapshot(&self) -> Result<Transaction<'static, Sqlite>> {
        self.readers.begin().await.map_err(sql_failed)
    }
}
