//! Twenty ingest processors at once over one Qdrant and one Postgres, as twenty workers would be.

#[path = "support/postgres.rs"]
#[allow(dead_code)] // Outages are for other tests.
mod postgres_server;
#[path = "support/qdrant_server/mod.rs"]
#[allow(dead_code, unused_imports)] // So are fault switches.
mod qdrant_server;

use std::sync::Arc;

use postgres_server::PostgresServer;
use qdrant_server::QdrantServer;
use ragbus::adapters::parse::TextParser;
use ragbus::adapters::postgres::PostgresRegistry;
use ragbus::adapters::qdrant::{QdrantConfig, QdrantVectorStore};
use ragbus::ingest::{ConsistencyParts, IngestParts, IngestProcessor, NoObserver};
use ragbus::model::{
    ChunkInput, CorpusName, CorpusRef, DocumentId, IngestJob, IngestOperation, IngestStatus, JobId,
    Metadata, PutChunks, TenantId,
};
use ragbus::tenancy::TenancyStrategy;
use ragbus::testing::{MemoryBlobStore, hash_models};

const WORKERS: u64 = 20;

/// A worker's own connections to what all share.
async fn processor(
    postgres: &str,
    qdrant: &str,
    tenancy: TenancyStrategy,
) -> (IngestProcessor, ConsistencyParts) {
    let registry = Arc::new(PostgresRegistry::open(postgres, 2).await.expect("opened"));
    let store = QdrantVectorStore::new(QdrantConfig::new(qdrant)).expect("opened");
    let store = Arc::new(store);
    let processor = IngestProcessor::new(IngestParts {
        registry: Arc::clone(&registry) as _,
        store: Arc::clone(&store) as _,
        models: hash_models(16),
        parser: Arc::new(TextParser),
        blobs: Arc::new(MemoryBlobStore::default()),
        tenancy,
        observer: Arc::new(NoObserver),
    });
    let parts = ConsistencyParts {
        registry,
        store,
        tenancy,
    };
    (processor, parts)
}

fn job(corpus: &CorpusRef, document: &str, sequence: u64) -> IngestJob {
    IngestJob {
        job_id: JobId::derive(None, sequence),
        corpus: corpus.clone(),
        sequence,
        attempt: 1,
        operation: IngestOperation::PutChunks(PutChunks {
            document_id: DocumentId::new(document).expect("valid"),
            chunks: vec![ChunkInput {
                content: format!("version {sequence} of {document}"),
                metadata: Metadata::default(),
            }],
            metadata: Metadata::default(),
            expires_at: None,
        }),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_workers_meet_a_new_corpus_and_one_document() {
    let postgres = tokio::task::spawn_blocking(PostgresServer::start);
    let postgres = postgres.await.expect("a server");
    for tenancy in [TenancyStrategy::Separate, TenancyStrategy::Shared] {
        let qdrant = QdrantServer::start();
        let (sql, url) = (postgres.url(), qdrant.url());
        let corpus = CorpusRef::new(
            TenantId::mint("acme").expect("valid"),
            CorpusName::new(&format!("c-{}", tenancy == TenancyStrategy::Shared)).expect("valid"),
        );
        let opened = (0..WORKERS).map(|_| processor(&sql, &url, tenancy));
        let workers = futures::future::join_all(opened).await;
        // Each a document of its own, all in a corpus that isn't there yet.
        let first = workers.iter().zip(1..).map(|((processor, _), sequence)| {
            let job = job(&corpus, &format!("d{sequence}"), sequence);
            async move { processor.process(&job).await.expect("no failure") }
        });
        for result in futures::future::join_all(first).await {
            assert_eq!(result.status, IngestStatus::Indexed);
        }
        // And all of one document.
        let same = workers.iter().zip(100..).map(|((processor, _), sequence)| {
            let job = job(&corpus, "shared", sequence);
            async move { processor.process(&job).await.expect("no failure") }
        });
        futures::future::join_all(same).await;
        let check = workers[0].1.verify(&corpus, false).await.expect("verified");
        assert!(check.is_clean(), "{check:?}");
        assert_eq!(
            (check.documents, check.stored_points),
            (WORKERS + 1, WORKERS + 1)
        );
        let at = tenancy.place(&corpus, 1);
        let newest = DocumentId::new("shared").expect("valid");
        let chunks = workers[0]
            .1
            .store
            .document_chunks(&at, &newest, 99 + WORKERS)
            .await;
        assert_eq!(chunks.expect("read").len(), 1, "the highest sequence wins");
    }
}
