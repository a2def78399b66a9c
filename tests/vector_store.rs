//! The vector store contract on the memory and the embedded store, and what only the embedded one promises.

use std::sync::Arc;

use ragbus::adapters::edge::{EdgeConfig, EdgeVectorStore};
use ragbus::spi::VectorStore;
use ragbus::testing::MemoryVectorStore;

#[path = "vector_store/edge.rs"]
mod edge;

/// A store and what must outlive it.
fn memory() -> (Arc<dyn VectorStore>, ()) {
    (Arc::new(MemoryVectorStore::new()), ())
}

fn embedded() -> (Arc<dyn VectorStore>, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    let store = EdgeVectorStore::open(EdgeConfig::new(dir.path())).expect("opened");
    (Arc::new(store), dir)
}

macro_rules! contract {
    ($($case:ident)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (store, _keep) = super::memory();
                ragbus::testing::contract::vector_store::$case(store).await;
            })*
        }
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (store, _keep) = super::embedded();
                ragbus::testing::contract::vector_store::$case(store).await;
            })*
        }
    };
}

contract! {
    creation_is_idempotent schemas_are_compared a_missing_collection_is_told a_dropped_generation_stays_dropped
    generations_are_switched a_closed_store_refuses
    points_come_back_whole stale_points_are_left_alone vectors_are_replaced_whole unusable_vectors_write_nothing
    deletes_go_by_sequence documents_are_read_back
    legs_rank_alone a_floor_is_inclusive fusion_follows_the_paper dbsf_fuses ties_are_not_cut bm25_weighs_rare_terms
    random_filters_agree_with_filter_eval times_and_numbers exists_and_metadata_types
    tenants_do_not_meet wide_filters_stay_inside
}
