//! A database with its ports, a store in memory, and short ways to fill and read them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ragbus::adapters::parse::TextParser;
use ragbus::adapters::postgres::PostgresRegistry;
use ragbus::adapters::sqlite::SqliteRegistry;
use ragbus::error::Result;
use ragbus::ingest::{Forgetter, IngestParts, IngestProcessor, NoObserver};
use ragbus::model::{
    ChunkInput, CorpusName, CorpusRef, DocumentId, Hold, HoldScope, IngestJob, IngestOperation,
    IngestResult, JobId, Metadata, PutChunks, RetentionWindows, Run, RunOrder, TenantId,
    TimeWindow, Timestamp,
};
use ragbus::retention::{Retention, RetentionParts};
use ragbus::spi::{
    DocumentRegistry, JobHorizon, JobSource, RebuildRegistry, RetentionRegistry, RetrievalTracker,
    VectorStore,
};
use ragbus::tenancy::TenancyStrategy;
use ragbus::testing::contract::tracker::busy_record;
use ragbus::testing::{MemoryBlobStore, MemoryVectorStore, hash_models};

use crate::postgres_server::PostgresServer;

pub const DAY: i64 = 86_400_000_000;
const TENANCY: TenancyStrategy = TenancyStrategy::Separate;

/// What is told of the jobs that may still come.
#[derive(Debug, Default)]
pub struct ScriptedJobs(Mutex<Option<JobHorizon>>);

impl ScriptedJobs {
    pub fn set(&self, horizon: Option<JobHorizon>) {
        *self.0.lock().expect("unpoisoned") = horizon;
    }
}

#[async_trait]
impl JobSource for ScriptedJobs {
    async fn horizon(&self) -> Result<Option<JobHorizon>> {
        Ok(*self.0.lock().expect("unpoisoned"))
    }
}

pub struct World {
    pub registry: Arc<dyn RetentionRegistry>,
    pub documents: Arc<dyn DocumentRegistry>,
    pub rebuilds: Arc<dyn RebuildRegistry>,
    pub tracker: Arc<dyn RetrievalTracker>,
    pub jobs: Arc<ScriptedJobs>,
    pub windows: RetentionWindows,
    pub max_share: f64,
    pub batch: u32,
    store: Arc<dyn VectorStore>,
}

pub async fn sqlite() -> (World, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    let registry = SqliteRegistry::open(&dir.path().join("r.db"))
        .await
        .expect("opened");
    let tracker = Arc::new(registry.tracker());
    let registry = Arc::new(registry);
    (World::over(registry, tracker), dir)
}

pub async fn postgres() -> (World, PostgresServer) {
    let server = PostgresServer::start();
    let registry = PostgresRegistry::open(&server.url(), 8)
        .await
        .expect("opened");
    let tracker = Arc::new(registry.tracker());
    let registry = Arc::new(registry);
    (World::over(registry, tracker), server)
}

pub fn never() -> bool {
    false
}

pub fn corpus(tenant: &str, corpus: &str) -> CorpusRef {
    CorpusRef::new(
        TenantId::mint(tenant).expect("valid"),
        CorpusName::new(corpus).expect("valid"),
    )
}

pub fn document(id: &str) -> DocumentId {
    DocumentId::new(id).expect("valid")
}

impl World {
    fn over<R>(registry: Arc<R>, tracker: Arc<dyn RetrievalTracker>) -> Self
    where
        R: RetentionRegistry + DocumentRegistry + RebuildRegistry + 'static,
    {
        Self {
            registry: registry.clone(),
            documents: registry.clone(),
            rebuilds: registry,
            tracker,
            jobs: Arc::default(),
            windows: RetentionWindows {
                days: 90,
                min_days: 1,
                ..RetentionWindows::default()
            },
            max_share: 0.5,
            batch: 500,
            store: Arc::new(MemoryVectorStore::new()),
        }
    }

    pub fn retention(&self, owner: &str) -> Retention {
        Retention::new(RetentionParts {
            registry: Arc::clone(&self.registry),
            tracker: Arc::clone(&self.tracker),
            store: Arc::clone(&self.store),
            jobs: self.jobs.clone(),
            tenancy: TENANCY,
            windows: self.windows.clone(),
            max_share: self.max_share,
            batch: self.batch,
            budget: Duration::from_secs(600),
            owner: owner.to_owned(),
            lease: Duration::from_secs(600),
        })
    }

    pub fn forgetter(&self) -> Forgetter {
        Forgetter {
            processor: Arc::new(self.processor()),
            documents: Arc::clone(&self.documents),
            retention: Arc::clone(&self.registry),
            tracker: Arc::clone(&self.tracker),
        }
    }

    fn processor(&self) -> IngestProcessor {
        IngestProcessor::new(IngestParts {
            registry: Arc::clone(&self.documents),
            store: Arc::clone(&self.store),
            models: hash_models(16),
            parser: Arc::new(TextParser),
            blobs: Arc::new(MemoryBlobStore::default()),
            tenancy: TENANCY,
            observer: Arc::new(NoObserver),
        })
    }

    /// Orders a run and carries it out.
    pub async fn run(&self, key: &str, order: RunOrder) -> Run {
        self.registry.order_run(key, &order).await.expect("ordered");
        let mut ended = self.retention("w").work(&never).await.expect("works");
        ended.pop().expect("one run ended").0
    }

    /// The database's clock.
    pub async fn now(&self) -> i64 {
        self.tracker.now().await.expect("told").as_micros()
    }

    async fn job(
        &self,
        corpus: &CorpusRef,
        sequence: u64,
        operation: IngestOperation,
    ) -> IngestResult {
        let job = IngestJob {
            job_id: JobId::derive(None, sequence),
            corpus: corpus.clone(),
            sequence,
            attempt: 1,
            operation,
        };
        self.processor().process(&job).await.expect("done")
    }

    async fn put_job(
        &self,
        corpus: &CorpusRef,
        id: &str,
        sequence: u64,
        expires_at: Option<Timestamp>,
    ) -> IngestResult {
        let chunk = ChunkInput {
            content: format!("{id} of {sequence}"),
            metadata: Metadata::default(),
        };
        let put = PutChunks {
            document_id: document(id),
            chunks: vec![chunk],
            metadata: Metadata::default(),
            expires_at,
        };
        self.job(corpus, sequence, IngestOperation::PutChunks(put))
            .await
    }

    /// A document of one chunk.
    pub async fn put(
        &self,
        corpus: &CorpusRef,
        id: &str,
        sequence: u64,
        expires: Option<Timestamp>,
    ) {
        let result = self.put_job(corpus, id, sequence, expires).await;
        assert_eq!(format!("{:?}", result.status), "Indexed");
    }

    /// What became of a put.
    pub async fn put_anyway(&self, corpus: &CorpusRef, id: &str, sequence: u64) -> String {
        format!(
            "{:?}",
            self.put_job(corpus, id, sequence, None).await.status
        )
    }

    pub async fn delete(&self, corpus: &CorpusRef, id: &str, sequence: u64) {
        self.job(
            corpus,
            sequence,
            IngestOperation::DeleteDocument(document(id)),
        )
        .await;
    }

    /// Chunks of a document that are served.
    pub async fn chunks(&self, corpus: &CorpusRef, id: &str) -> u32 {
        let found = self.documents.document(corpus, &document(id)).await;
        found.expect("read").map_or(0, |entry| entry.chunks)
    }

    /// Points of a corpus in all generations.
    pub async fn points(&self, corpus: &CorpusRef) -> u64 {
        let mut points = 0;
        for generation in 1..5 {
            let at = TENANCY.place(corpus, generation);
            points += self.store.count(&at).await.expect("counted");
        }
        points
    }

    pub async fn hold(&self, corpus: &CorpusRef, id: Option<&str>, name: &str) -> Hold {
        let hold = Hold {
            id: name.to_owned(),
            scope: HoldScope {
                tenant: corpus.tenant.clone(),
                corpus: Some(corpus.corpus.clone()),
                document: id.map(document),
            },
            reason: "a case".to_owned(),
            actor: "someone".to_owned(),
            since: Timestamp::from_micros(77),
        };
        self.registry.add_hold(&hold).await.expect("added");
        hold
    }

    /// One retrieval at each of these times.
    pub async fn retrievals(&self, corpus: &CorpusRef, times: &[i64]) {
        let records: Vec<_> = (0..)
            .zip(times)
            .map(|(number, at)| busy_record(corpus, *at, number))
            .collect();
        let stored = self.tracker.record(&records).await.expect("stored");
        assert_eq!(stored, times.len() as u64);
    }

    /// Retrievals that are kept of a corpus.
    pub async fn left(&self, corpus: &CorpusRef) -> usize {
        let (tenant, name) = (&corpus.tenant, Some(&corpus.corpus));
        let records = self
            .tracker
            .records(tenant, name, TimeWindow::ALL, None, 1_000);
        records.await.expect("read").len()
    }
}
