//! The tracker's contract on the memory, the SQLite and the Postgres tracker, and what only a server promises.

#[path = "support/postgres.rs"]
mod postgres_server;

use std::sync::Arc;

use postgres_server::PostgresServer;
use ragbus::adapters::postgres::PostgresRegistry;
use ragbus::adapters::sqlite::SqliteRegistry;
use ragbus::testing::MemoryTracker;
use ragbus::testing::contract::tracker::Tracked;

async fn sqlite() -> (Tracked, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    let registry = SqliteRegistry::open(&dir.path().join("r.db"))
        .await
        .expect("opened");
    (Arc::new(registry.tracker()), dir)
}

async fn postgres() -> (Tracked, PostgresServer) {
    let server = PostgresServer::start();
    let registry = PostgresRegistry::open(&server.url(), 8)
        .await
        .expect("opened");
    (Arc::new(registry.tracker()), server)
}

macro_rules! contract {
    ($($case:ident)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let tracker = std::sync::Arc::new(super::MemoryTracker::new());
                ragbus::testing::contract::tracker::$case(tracker).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (tracker, _keep) = super::sqlite().await;
                ragbus::testing::contract::tracker::$case(tracker).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (tracker, _keep) = super::postgres().await;
                ragbus::testing::contract::tracker::$case(tracker).await;
            })*
        }
    };
}

contract! {
    records_come_back_whole a_batch_counts_once tenants_do_not_meet pages_have_no_gaps feedback_follows_the_rules
    corpora_are_listed_and_time_is_told a_purge_is_strict_and_exact holds_spare_what_replies_held
    a_purge_goes_on_where_it_stopped a_tenant_is_forgotten inserts_and_purges_do_not_tear a_small_corpus_adds_up
    questions_share_documents figures_agree_with_plain_ones
}
