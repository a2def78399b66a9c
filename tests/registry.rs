//! The registry contract on the memory, the SQLite and the Postgres registry, and what only a file or a server promises.

#[path = "support/postgres.rs"]
mod postgres_server;

use std::sync::Arc;

use postgres_server::PostgresServer;
use ragbus::adapters::postgres::PostgresRegistry;
use ragbus::adapters::sqlite::SqliteRegistry;
use ragbus::spi::{DocumentRegistry, RebuildRegistry};
use ragbus::testing::MemoryRegistry;
use ragbus::testing::contract::rebuilds as contract;

async fn sqlite() -> (Arc<SqliteRegistry>, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    let registry = SqliteRegistry::open(&dir.path().join("r.db"))
        .await
        .expect("opened");
    (Arc::new(registry), dir)
}

async fn postgres() -> (Arc<PostgresRegistry>, PostgresServer) {
    let server = PostgresServer::start();
    let registry = PostgresRegistry::open(&server.url(), 8)
        .await
        .expect("opened");
    (Arc::new(registry), server)
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
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (registry, _keep) = super::postgres().await;
                ragbus::testing::contract::registry::$case(registry).await;
            })*
        }
    };
}

/// The same registry by both its ports.
macro_rules! rebuilds {
    ($($case:ident)*) => {
        mod rebuilds_in_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let registry = std::sync::Arc::new(super::MemoryRegistry::new());
                super::contract::$case(super::both(&registry)).await;
            })*
        }
        mod rebuilds_in_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (registry, _keep) = super::sqlite().await;
                super::contract::$case(super::both(&registry)).await;
            })*
        }
        mod rebuilds_in_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (registry, _keep) = super::postgres().await;
                super::contract::$case(super::both(&registry)).await;
            })*
        }
    };
}

fn both<R: DocumentRegistry + RebuildRegistry + 'static>(registry: &Arc<R>) -> contract::Both {
    contract::Both {
        documents: registry.clone(),
        rebuilds: registry.clone(),
    }
}

rebuilds! {
    a_rebuild_is_begun_once only_copies_of_what_is_served_are_switched_to jobs_notice_a_switch
    a_rebuild_is_one_workers a_corpus_deletion_ends_the_rebuild
}

contract! {
    puts_follow_the_rules results_are_kept a_corpus_is_fenced newer_work_survives_a_corpus_deletion
    a_retired_generation_is_noticed lists_page_and_keep_tenants_apart transactions_do_not_tear crashes_are_counted
    documents_of_a_tenant_are_counted
}

#[tokio::test]
async fn a_file_is_read_back_and_a_damaged_one_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("r.db");
    let first = SqliteRegistry::open(&path).await.expect("created");
    first.close().await.expect("closed");
    let again = SqliteRegistry::open(&path).await.expect("opened again");
    assert_eq!(again.highest_sequence().await.expect("reads"), 0);
    again.close().await.expect("closed");
    std::fs::write(
        &path,
        "no database at all, but long enough to be looked at as one",
    )
    .expect("written");
    let error = SqliteRegistry::open(&path).await.expect_err("damaged");
    assert_eq!(error.kind(), ragbus::error::ErrorKind::DependencyFailed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_and_comes_back_is_served_again() {
    let mut server = PostgresServer::start();
    let registry = PostgresRegistry::open(&server.url(), 4)
        .await
        .expect("opened");
    assert_eq!(registry.highest_sequence().await.expect("reads"), 0);
    server.kill();
    let error = registry.health().await.expect_err("nobody there");
    assert_eq!(error.kind(), ragbus::error::ErrorKind::DependencyFailed);
    server.restart();
    registry.health().await.expect("connected again by itself");
    assert_eq!(registry.highest_sequence().await.expect("reads"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_start_together_bring_the_schema_up_to_date_once() {
    let server = PostgresServer::start();
    let url = server.url();
    let opened = (0..8).map(|_| PostgresRegistry::open(&url, 2));
    for registry in futures::future::join_all(opened).await {
        registry.expect("opened").health().await.expect("works");
    }
}

#[tokio::test]
async fn a_bad_address_is_told_without_its_password() {
    for url in [
        "postgres://u:sesame@127.0.0.1:1/x",
        "postgres://u:sesame@:bad/x",
    ] {
        let error = PostgresRegistry::open(url, 1).await.expect_err("refused");
        assert!(!error.chain().contains("sesame"), "{}", error.chain());
    }
}
