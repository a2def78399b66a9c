//! The document registry and the tracker of retrievals in a SQLite file.
//!
//! Writes go through one connection with `BEGIN IMMEDIATE`, so that a transaction never fails half-way for a lock;
//! reads have their own connections. A commit is on disk (`synchronous = FULL`) before a call returns.

mod registry;
mod tracker;
mod tracker_insert;

use std::path::Path;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::error::{Error, Result};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

const READERS: u32 = 4;
const BUSY: Duration = Duration::from_secs(10);

/// The registry over a SQLite file.
#[derive(Debug, Clone)]
pub struct SqliteRegistry {
    writer: SqlitePool,
    readers: SqlitePool,
}

/// The tracker over the same.
#[derive(Debug, Clone)]
pub struct SqliteTracker {
    writer: SqlitePool,
    readers: SqlitePool,
}

impl SqliteRegistry {
    /// The tracker over the registry's connections; it closes with the registry.
    pub fn tracker(&self) -> SqliteTracker {
        SqliteTracker {
            writer: self.writer.clone(),
            readers: self.readers.clone(),
        }
    }

    /// Opens or creates the file and brings its schema up to date.
    ///
    /// # Errors
    /// `DependencyFailed` when the file can't be opened or was written by a newer version.
    pub async fn open(path: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY)
            .foreign_keys(true);
        let pool = |size| SqlitePoolOptions::new().max_connections(size);
        let failed = |what: &'static str| move |e: sqlx::Error| Error::dependency(what, e);
        let writer = pool(1)
            .connect_with(options.clone())
            .await
            .map_err(failed("the SQLite file can't be opened"))?;
        MIGRATIONS
            .run(&writer)
            .await
            .map_err(|e| Error::dependency("the SQLite schema can't be brought up to date", e))?;
        let readers = pool(READERS)
            .connect_with(options)
            .await
            .map_err(failed("the SQLite file can't be opened"))?;
        Ok(Self { writer, readers })
    }
}
