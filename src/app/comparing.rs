//! The comparison of registry and store when a worker starts. Must not know how either keeps what it counts.

use std::sync::Arc;

use crate::spi::{DocumentRegistry, VectorStore};
use crate::tenancy::TenancyStrategy;

/// Compares what the registry says is live with what the store holds, beside the service: a damaged corpus fails only the
/// calls it concerns.
pub(super) async fn compare(
    registry: Arc<dyn DocumentRegistry>,
    store: Arc<dyn VectorStore>,
    tenancy: TenancyStrategy,
) {
    let corpora = match registry.all_corpora().await {
        Ok(corpora) => corpora,
        Err(error) => {
            return tracing::warn!(error = %error.chain(), "registry and store can't be compared");
        }
    };
    for (corpus, entry) in corpora {
        let (tenant, name) = (corpus.tenant.as_str(), corpus.corpus.as_str());
        match store.count(&tenancy.place(&corpus, entry.generation)).await {
            Ok(stored) if stored == entry.chunks => {}
            Ok(stored) => tracing::warn!(
                tenant,
                corpus = name,
                registry_chunks = entry.chunks,
                stored_points = stored,
                "registry and store differ: jobs in work explain it, else put the corpus' documents again after deleting it"
            ),
            Err(error) => {
                tracing::error!(tenant, corpus = name, error = %error.chain(), "a corpus can't be read")
            }
        }
    }
}
