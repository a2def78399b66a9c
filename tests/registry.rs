//! The registry contract on the memory and the SQLite registry, and what only a file promises.

use std::sync::Arc;

use ragbus::adapters::sqlite::SqliteRegistry;
use ragbus::spi::DocumentRegistry;
use ragbus::testing::MemoryRegistry;

async fn sqlite() -> (Arc<dyn DocumentRegistry>, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    let registry = SqliteRegistry::open(&dir.path().join("r.db"))
        .await
        .expect("opened");
    (Arc::new(registry), dir)
}

macro_rules! contract {
    ($($case:ident)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let registry = std::sync::Arc::new(super::MemoryRegistry::new());
                ragbus::testing::contract::registry::$case(registry).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (registry, _keep) = super::sqlite().await;
                ragbus::testing::contract::registry::$case(registry).await;
            })*
        }
    };
}

contract! {
    puts_follow_the_rules results_are_kept a_corpus_is_fenced newer_work_survives_a_corpus_deletion
    a_retired_generation_is_noticed lists_page_and_keep_tenants_apart transactions_do_not_tear crashes_are_counted
}

#[tokio::test]
async fn a_file_is_read_back_and_a_damaged_one_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("r.db");
    let first = SqliteRegistry::open(&path).await.expect("created");
    first.close().await;
    let again = SqliteRegistry::open(&path).await.expect("opened again");
    assert_eq!(again.highest_sequence().await.expect("reads"), 0);
    again.close().await;
    std::fs::write(
        &path,
        "no database at all, but long enough to be looked at as one",
    )
    .expect("written");
    let error = SqliteRegistry::open(&path).await.expect_err("damaged");
    assert_eq!(error.kind(), ragbus::error::ErrorKind::DependencyFailed);
}
