//! The tracker's contract on the memory, the SQLite and the Postgres tracker, and what only a server promises.

#[path = "tracker/load.rs"]
mod load;
#[path = "support/postgres.rs"]
mod postgres_server;

use std::sync::Arc;
use std::time::Duration;

use postgres_server::PostgresServer;
use ragbus::adapters::postgres::PostgresRegistry;
use ragbus::adapters::sqlite::SqliteRegistry;
use ragbus::error::ErrorKind;
use ragbus::model::TimeWindow;
use ragbus::testing::MemoryTracker;
use ragbus::testing::contract::tracker::{Tracked, a_corpus, busy_record};

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
    a_purge_goes_on_where_it_stopped a_tenant_is_forgotten inserts_and_purges_do_not_tear a_small_corpus_adds_up a_small_corpus_sums_up
    questions_share_documents figures_agree_with_plain_ones
}

/// A batch that the server's death interrupts is there whole or not at all, and sent again it is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_survives_the_servers_death() {
    let (tracker, mut server) = postgres().await;
    let corpus = a_corpus();
    let batches: Vec<Vec<_>> = (0..40)
        .map(|b| (0..100).map(|n| busy_record(&corpus, b, n)).collect())
        .collect();
    // The first error ends it: later ones would only wait for the server.
    let writer = {
        let (tracker, batches) = (Arc::clone(&tracker), batches.clone());
        tokio::spawn(async move {
            let mut stored = 0;
            for batch in &batches {
                match tracker.record(batch).await {
                    Ok(new) => stored += new,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::DependencyFailed);
                        // Nothing of what was asked is in the error.
                        assert!(!error.chain().contains("warranty"), "{}", error.chain());
                        break;
                    }
                }
            }
            stored
        })
    };
    tokio::time::sleep(Duration::from_millis(150)).await;
    server.kill();
    let before = writer.await.expect("ran");
    server.restart();
    let kept = async |limit| {
        let window = TimeWindow::ALL;
        let all = tracker.records(&corpus.tenant, None, window, None, limit);
        all.await.expect("reads")
    };
    let found = kept(10_000).await;
    assert!(found.len() as u64 >= before && found.len() % 100 == 0);
    assert!(found.iter().all(|record| record.chunks.len() == 10));
    let mut after = 0;
    for batch in &batches {
        after += tracker.record(batch).await.expect("stored");
    }
    assert_eq!(found.len() as u64 + after, 4_000);
    assert_eq!(kept(10_000).await.len(), 4_000);
}
