//! The vector store contract on every store: in memory, embedded, on a test server, and on a real server when one is named;
//! and what only some of them promise.

use std::sync::Arc;

use ragbus::adapters::edge::{EdgeConfig, EdgeVectorStore};
use ragbus::adapters::qdrant::{QdrantConfig, QdrantVectorStore};
use ragbus::spi::VectorStore;
use ragbus::testing::MemoryVectorStore;

#[path = "vector_store/edge.rs"]
mod edge;
#[path = "vector_store/qdrant/mod.rs"]
mod qdrant;
#[path = "support/qdrant_server/mod.rs"]
#[allow(dead_code, reason = "tests of the whole program kill it")]
mod qdrant_server;
#[path = "vector_store/real.rs"]
mod real;

/// A store and what must outlive it.
fn memory() -> (Arc<dyn VectorStore>, ()) {
    (Arc::new(MemoryVectorStore::new()), ())
}

fn embedded() -> (Arc<dyn VectorStore>, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    let store = EdgeVectorStore::open(EdgeConfig::new(dir.path())).expect("opened");
    (Arc::new(store), dir)
}

fn test_server() -> (Arc<dyn VectorStore>, qdrant_server::QdrantServer) {
    let server = qdrant_server::QdrantServer::start();
    let store = QdrantVectorStore::new(QdrantConfig::new(server.url())).expect("a store");
    (Arc::new(store), server)
}

macro_rules! contract {
    ($($case:ident)*) => {
        contract! { @ memory: $($case)* }
        contract! { @ embedded: $($case)* }
        contract! { @ test_server: $($case)* }
        mod real_server_if_named {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::real::on_server(ragbus::testing::contract::vector_store::$case).await;
            })*
        }
    };
    (@ $store:ident: $($case:ident)*) => {
        mod $store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (store, _keep) = super::$store();
                ragbus::testing::contract::vector_store::$case(store).await;
            })*
        }
    };
}

contract! {
    creation_is_idempotent schemas_are_compared a_missing_collection_is_told a_dropped_generation_stays_dropped
    generations_are_switched a_prepared_generation_is_not_served a_closed_store_refuses
    points_come_back_whole stale_points_are_left_alone vectors_are_replaced_whole unusable_vectors_write_nothing
    deletes_go_by_sequence documents_are_read_back
    legs_rank_alone a_floor_is_inclusive fusion_follows_the_paper dbsf_fuses ties_are_not_cut bm25_weighs_rare_terms
    random_filters_agree_with_filter_eval times_and_numbers exists_and_metadata_types
    tenants_do_not_meet wide_filters_stay_inside
}
