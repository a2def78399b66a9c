//! The contract on a real Qdrant server, when `RAGBUS_TEST_QDRANT_URL` names one (`RAGBUS_TEST_QDRANT_API_KEY` is its key).
//! Every run has collections of its own and removes them.

use std::sync::Arc;
use std::time::Duration;

use qdrant_client::Qdrant;
use ragbus::adapters::qdrant::{QdrantConfig, QdrantVectorStore};
use ragbus::spi::VectorStore;
use uuid::Uuid;

const URL: &str = "RAGBUS_TEST_QDRANT_URL";
const KEY: &str = "RAGBUS_TEST_QDRANT_API_KEY";

/// Runs a case on the server and cleans up, also after a failure. Without a server it says so and passes.
pub async fn on_server<F>(case: impl FnOnce(Arc<dyn VectorStore>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let Ok(url) = std::env::var(URL) else {
        println!("skipped: {URL} is not set");
        return;
    };
    let mut config = QdrantConfig::new(&url);
    config.api_key = std::env::var(KEY).ok();
    config.collection_prefix = format!("test_{}_", Uuid::new_v4().simple());
    // Many cases create collections at once.
    config.timeout = Duration::from_secs(30);
    let prefix = config.collection_prefix.clone();
    let store = Arc::new(QdrantVectorStore::new(config).expect("a store"));
    let done = tokio::spawn(case(store)).await;
    clean_up(&url, &prefix).await;
    if let Err(failure) = done {
        std::panic::resume_unwind(failure.into_panic());
    }
}

async fn clean_up(url: &str, prefix: &str) {
    let client = Qdrant::from_url(url)
        .api_key(std::env::var(KEY))
        .skip_compatibility_check()
        .build()
        .expect("a client");
    let listed = client.list_collections().await.expect("listed").collections;
    for collection in listed.iter().filter(|c| c.name.starts_with(prefix)) {
        client
            .delete_collection(&collection.name)
            .await
            .expect("deleted");
    }
}
