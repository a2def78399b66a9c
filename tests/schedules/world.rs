//! Stores, registry and a processor per job whose every step waits for the driver.

use std::sync::Arc;

use async_trait::async_trait;
use ragbus::adapters::edge::{EdgeConfig, EdgeVectorStore};
use ragbus::adapters::parse::TextParser;
use ragbus::adapters::qdrant::{QdrantConfig, QdrantVectorStore};
use ragbus::adapters::sqlite::SqliteRegistry;
use ragbus::ingest::{IngestParts, IngestProcessor};
use ragbus::model::{CorpusName, CorpusRef, TenantId};
use ragbus::spi::{DocumentRegistry, IngestStep, StepObserver, VectorStore};
use ragbus::tenancy::TenancyStrategy;
use ragbus::testing::{
    FaultyStore, MemoryBlobStore, MemoryRegistry, MemoryVectorStore, hash_models,
};
use tokio::sync::{Semaphore, mpsc};

use crate::qdrant_server::{Fault, QdrantServer};

/// One corpus and what holds it.
#[derive(Clone)]
pub struct World {
    pub store: FaultyStore,
    pub registry: Arc<dyn DocumentRegistry>,
    pub corpus: CorpusRef,
    /// Whether a redelivery may start before a late write has landed: the rule that must not be broken.
    pub unbounded: bool,
}

impl World {
    pub fn in_memory() -> Self {
        Self::over(
            Arc::new(MemoryVectorStore::new()),
            Arc::new(MemoryRegistry::new()),
        )
    }

    pub async fn on_disk() -> (Self, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a folder");
        let store =
            EdgeVectorStore::open(EdgeConfig::new(dir.path().join("edge"))).expect("opened");
        let registry = SqliteRegistry::open(&dir.path().join("r.db"))
            .await
            .expect("opened");
        (Self::over(Arc::new(store), Arc::new(registry)), dir)
    }

    /// The store on a test server, over real gRPC, whose first writes fail in ways that the store mends by itself.
    pub fn on_a_server(seed: u64) -> Self {
        let server = QdrantServer::start();
        let faults = [Fault::HalfApplied, Fault::WaitTimeout, Fault::Unanswered];
        for fault in faults.into_iter().cycle().skip(seed as usize % 3).take(2) {
            server.then("points/upsert", fault);
            server.then("points/delete", fault);
        }
        let store = QdrantVectorStore::new(QdrantConfig::new(server.url())).expect("a store");
        Self::over(Arc::new(store), Arc::new(MemoryRegistry::new()))
    }

    fn over(store: Arc<dyn VectorStore>, registry: Arc<dyn DocumentRegistry>) -> Self {
        let corpus = CorpusRef::new(
            TenantId::mint("acme").expect("valid"),
            CorpusName::new("docs").expect("valid"),
        );
        Self {
            store: FaultyStore::new(store),
            registry,
            corpus,
            unbounded: false,
        }
    }

    pub fn with_unbounded_writes(mut self) -> Self {
        self.unbounded = true;
        self
    }

    pub async fn close(&self) {
        self.store.close().await.expect("closed");
    }

    /// A processor that stops at every step until the turnstile lets it on.
    pub fn processor(&self, turnstile: Arc<Turnstile>) -> IngestProcessor {
        IngestProcessor::new(IngestParts {
            registry: Arc::clone(&self.registry),
            store: Arc::new(self.store.clone()),
            models: hash_models(16),
            parser: Arc::new(TextParser),
            blobs: Arc::new(MemoryBlobStore::default()),
            tenancy: TenancyStrategy::Separate,
            observer: turnstile,
        })
    }
}

/// Where a job waits for its turn.
#[derive(Debug)]
pub struct Turnstile {
    turns: Semaphore,
    arrived: mpsc::UnboundedSender<IngestStep>,
}

impl Turnstile {
    pub fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<IngestStep>) {
        let (arrived, arrivals) = mpsc::unbounded_channel();
        (
            Arc::new(Self {
                turns: Semaphore::new(0),
                arrived,
            }),
            arrivals,
        )
    }

    pub fn let_on(&self) {
        self.turns.add_permits(1);
    }
}

#[async_trait]
impl StepObserver for Turnstile {
    async fn reached(&self, step: IngestStep) {
        // The driver may be gone when a job was crashed.
        let _ = self.arrived.send(step);
        if let Ok(turn) = self.turns.acquire().await {
            turn.forget();
        }
    }
}
