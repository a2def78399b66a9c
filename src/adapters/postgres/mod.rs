//! The document registry and the tracker of retrievals in Postgres, for any number of workers.
//!
//! Layer 3. Connections come from a bounded pool that replaces broken ones. The server ends statements, waits for locks and
//! idle transactions by itself, so that a worker that hangs or dies holds nothing for long.

mod registry;
mod tracker;
mod tracker_insert;

use std::time::Duration;

use sqlx::PgPool;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::error::{Error, Result};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// A call gives up when no connection gets free, or the server can't be reached.
const ACQUIRE: Duration = Duration::from_secs(5);
/// Connections are replaced now and then, so that servers behind one name share the load again after a failover.
const MAX_LIFETIME: Duration = Duration::from_secs(30 * 60);
const LIMITS: [(&str, &str); 3] = [
    ("statement_timeout", "10s"),
    ("lock_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "30s"),
];

/// The registry over a Postgres database.
#[derive(Debug, Clone)]
pub struct PostgresRegistry {
    writer: PgPool,
    readers: PgPool,
}

/// The tracker over the same.
#[derive(Debug, Clone)]
pub struct PostgresTracker {
    writer: PgPool,
    readers: PgPool,
}

impl PostgresRegistry {
    /// The tracker over the registry's connections; it closes with the registry.
    pub fn tracker(&self) -> PostgresTracker {
        PostgresTracker {
            writer: self.writer.clone(),
            readers: self.readers.clone(),
        }
    }

    /// Connects with at most `connections`, and brings the schema up to date; workers that start together take turns.
    ///
    /// # Errors
    /// `InvalidField` on `sql.url`; `DependencyFailed` when the server can't be reached or its schema is a newer version's.
    pub async fn open(url: &str, connections: u32) -> Result<Self> {
        let options: PgConnectOptions = url.parse().map_err(|e: sqlx::Error| {
            // The library's message may quote the password.
            let _ = e;
            Error::invalid_field(
                "sql.url",
                "is not a Postgres URL such as postgres://user@host/db",
            )
        })?;
        let options = options.application_name("ragbus").options(LIMITS);
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE)
            .max_lifetime(MAX_LIFETIME)
            .connect_with(options)
            .await
            .map_err(|e| Error::dependency("Postgres can't be reached", e))?;
        MIGRATIONS
            .run(&pool)
            .await
            .map_err(|e| Error::dependency("the Postgres schema can't be brought up to date", e))?;
        Ok(Self {
            writer: pool.clone(),
            readers: pool,
        })
    }
}
