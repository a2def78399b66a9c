//! The composition root: the only module that sees everything. Builds adapters from the configuration and hands them to a
//! worker.

mod comparing;
mod limits;
mod models;
mod retention;
mod stages;
mod storage;
mod tracking;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::adapters::edge::EdgeVectorStore;
use crate::adapters::lexical::Bm25Encoder;
use crate::adapters::llm::{ChatConfig, ChatGenerator, check_endpoint};
use crate::adapters::onnx::InferencePool;
use crate::adapters::parse::TextParser;
use crate::config::{Config, RoleName, TenancyKind, TickSource};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{IngestParts, IngestProcessor, NoObserver};
use crate::model::{ModelIds, TenantId};
use crate::retrieval::{HybridConfig, HybridParts, HybridRetriever, RetrievalPipeline};
use crate::spi::{
    CrossEncoder, DocumentRegistry, LexicalEncoder, ModelSets, RebuildRegistry, RetentionRegistry,
    RetrievalAnalysis, RetrievalTracker, Retriever, StepObserver, TextGenerator, VectorStore,
};
use crate::telemetry::{Health, HttpServer, InferenceGauges, Metrics, MetricsSetup, Telemetry};
use crate::tenancy::TenancyStrategy;
use crate::transport::nats::{
    Action, Change, Connection, NatsBlobStore, ReplyRule, bucket, connect, create_bucket,
    server_repeats, setup, setup_schedule,
};
use crate::wire::RetrieveRules;
use crate::worker::{Role, TrackingParts, WorkerParts, serve};
pub use models::load_models;
use stages::StageParts;
pub use storage::{lock_data, uses_data_folder};

/// The worker's own inbox lies outside callers' inboxes.
const WORKER_INBOX: &str = "_INBOX_W";
const CONNECT_RETRY: Duration = Duration::from_secs(2);
const PAGES_GRACE: Duration = Duration::from_secs(2);
const STATS_EVERY: Duration = Duration::from_secs(10);

/// A fresh name for a worker.
pub fn worker_name() -> String {
    format!("ragbus-{}", &Uuid::new_v4().simple().to_string()[..12])
}

/// Checks of a configuration that need the parts themselves, but no file and no network.
///
/// # Errors
/// `InvalidField` naming the key.
pub fn check(config: &Config) -> Result<()> {
    Bm25Encoder::new(&config.retrieval.languages)?;
    if !config.llm.base_url.is_empty() {
        check_endpoint(&config.llm.base_url, config.llm.allow_remote)?;
    }
    Ok(())
}

/// Connects as a worker; tries until it works or `stop`.
async fn connected(
    config: &Config,
    worker: &str,
    health: &Health,
    metrics: &Metrics,
    stop: &CancellationToken,
) -> Result<Option<Connection>> {
    let mut told = false;
    loop {
        let nats = &config.nats;
        let watch = Some((health.clone(), metrics.clone()));
        match connect(&nats.url, &nats.credentials, worker, WORKER_INBOX, watch).await {
            Ok(connection) => return Ok(Some(connection)),
            Err(error) if error.kind() == ErrorKind::DependencyFailed => {
                health.set("nats", Some(error.message().to_owned()));
                if !told {
                    tracing::warn!(error = %error.chain(), "waiting for NATS");
                    told = true;
                }
            }
            Err(error) => return Err(error),
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(CONNECT_RETRY) => {}
        }
    }
}

/// Everything a worker opens, in the order it is opened.
struct Opened {
    pool: Arc<InferencePool>,
    store: Arc<dyn VectorStore>,
    /// The same, when it is the embedded one.
    edge: Option<Arc<EdgeVectorStore>>,
    registry: Arc<dyn DocumentRegistry>,
    rebuilds: Arc<dyn RebuildRegistry>,
    retention: Arc<dyn RetentionRegistry>,
    tracker: Arc<dyn RetrievalTracker>,
    analysis: Arc<dyn RetrievalAnalysis>,
    models: ModelSets,
    stages: StageParts,
}

/// The language model, when one is configured.
async fn generator(config: &Config) -> Result<Option<Arc<dyn TextGenerator>>> {
    let llm = &config.llm;
    if llm.base_url.is_empty() {
        return Ok(None);
    }
    let chat = ChatConfig {
        base_url: llm.base_url.clone(),
        model: llm.model.clone(),
        api_key: llm.api_key.expose().to_owned(),
        allow_remote: llm.allow_remote,
    };
    Ok(Some(Arc::new(ChatGenerator::new(&chat).await?)))
}

/// The cross-encoder, when one is configured.
fn cross_encoder(config: &Config, pool: &InferencePool) -> Result<Option<Arc<dyn CrossEncoder>>> {
    match config.models.cross_encoder.as_str() {
        "" => Ok(None),
        id => Ok(Some(pool.cross_encoder(id)?)),
    }
}

async fn open(config: &Config) -> Result<Opened> {
    let lexical: Arc<dyn LexicalEncoder> = Arc::new(Bm25Encoder::new(&config.retrieval.languages)?);
    let generator = generator(config).await?;
    let configured = config.clone();
    let pool = tokio::task::spawn_blocking(move || load_models(&configured))
        .await
        .map_err(|e| Error::internal("loading models panicked").caused_by(e))??;
    let cross_encoder = cross_encoder(config, &pool)?;
    let models = models::sets(config, &pool, &lexical)?;
    let sql = storage::sql(config).await?;
    let (store, edge) = storage::store(config).await?;
    Ok(Opened {
        pool: Arc::new(pool),
        store,
        edge,
        registry: sql.documents,
        rebuilds: sql.rebuilds,
        retention: sql.retention,
        tracker: sql.tracker,
        analysis: sql.analysis,
        models,
        stages: StageParts {
            cross_encoder,
            generator,
        },
    })
}

fn tenancy(config: &Config) -> TenancyStrategy {
    match config.tenancy.strategy {
        TenancyKind::Separate => TenancyStrategy::Separate,
        TenancyKind::Shared => TenancyStrategy::Shared,
    }
}

fn processor(
    config: &Config,
    opened: &Opened,
    connection: &Connection,
    observer: Arc<dyn StepObserver>,
) -> Result<IngestProcessor> {
    Ok(IngestProcessor::new(IngestParts {
        registry: Arc::clone(&opened.registry),
        store: Arc::clone(&opened.store),
        models: opened.models.clone(),
        parser: Arc::new(TextParser),
        blobs: Arc::new(NatsBlobStore::new(connection.clone())),
        tenancy: tenancy(config),
        observer,
    }))
}

fn retrieval(config: &Config, opened: &Opened) -> Result<(RetrievalPipeline, RetrieveRules)> {
    let hybrid = HybridRetriever::new(HybridParts {
        store: Arc::clone(&opened.store),
        models: opened.models.clone(),
        tenancy: tenancy(config),
        config: HybridConfig {
            legs: stages::legs(config),
            depth: config.retrieval.depth,
            fusion: stages::fusion(config),
        },
    });
    Ok(stages::pipeline(config, Arc::new(hybrid), &opened.stages))
}

fn parts(
    config: &Config,
    opened: &Opened,
    connection: Connection,
    worker: String,
    metrics: Metrics,
    health: Health,
) -> Result<WorkerParts> {
    let limits = Arc::new(limits::book(config));
    let processor = processor(config, opened, &connection, observer())?;
    let processor = Arc::new(processor.limited(Arc::clone(&limits)));
    let (pipeline, rules) = retrieval(config, opened)?;
    let desk = retention::desk(config, opened, &processor, &connection, &worker);
    let own_ticks = retention::own_ticks(config, server_repeats(&connection))?;
    tracing::info!(
        stages = pipeline.describe(),
        threads = opened.pool.stats().threads,
        "retrieval stack"
    );
    let max_tokens =
        crate::spi::DenseEncoder::info(&*opened.pool.dense(&config.models.dense)?).max_tokens;
    Ok(WorkerParts {
        worker,
        connection,
        registry: Arc::clone(&opened.registry),
        rebuilds: Arc::clone(&opened.rebuilds),
        tracker: Arc::clone(&opened.tracker),
        analysis: Arc::clone(&opened.analysis),
        sets: opened.models.clone(),
        desk,
        own_ticks,
        store: Arc::clone(&opened.store),
        processor,
        retriever: Arc::new(pipeline),
        rules,
        models: ModelIds {
            dense: config.models.dense.clone(),
            sparse: config.models.sparse.clone(),
            cross_encoder: config.models.cross_encoder.clone(),
        },
        max_tokens,
        max_blob: config.worker.max_blob_bytes,
        tenancy: tenancy(config),
        reply_rule: ReplyRule::new(&config.nats.reply_prefixes),
        tracking: TrackingParts {
            publishing: tracking::publishing(config)?,
            tracker: Arc::clone(&opened.tracker),
            batch: storage::tracker_batch(config),
        },
        limits,
        ingest_concurrency: config.worker.ingest_concurrency,
        retrieve_concurrency: config.worker.retrieve_concurrency,
        threads: opened.pool.stats().threads,
        timeouts_ms: (
            config.retrieval.default_timeout_ms,
            config.retrieval.max_timeout_ms,
        ),
        metrics,
        health,
    })
}

/// In service nobody watches the steps; test builds may be told to die at one.
#[cfg(not(feature = "testing"))]
fn observer() -> Arc<dyn StepObserver> {
    Arc::new(NoObserver)
}

#[cfg(feature = "testing")]
fn observer() -> Arc<dyn StepObserver> {
    match crate::testing::AbortAt::from_env() {
        Some(abort) => Arc::new(abort),
        None => Arc::new(NoObserver),
    }
}

/// Figures read when metrics are collected.
fn observe(opened: &Opened, metrics: &Metrics, stop: &CancellationToken) {
    let (points, log) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (edge, stopped) = (opened.edge.clone(), stop.clone());
    let written = (Arc::clone(&points), Arc::clone(&log));
    tokio::spawn(async move {
        let Some(store) = edge else { return };
        while !stopped.is_cancelled() {
            if let Ok(stats) = store.stats().await {
                written
                    .0
                    .store(stats.iter().map(|s| s.points).sum(), Ordering::Relaxed);
                written
                    .1
                    .store(stats.iter().map(|s| s.wal_bytes).sum(), Ordering::Relaxed);
            }
            tokio::select! {
                () = stopped.cancelled() => {}
                () = tokio::time::sleep(STATS_EVERY) => {}
            }
        }
    });
    let (inference, queue) = (Arc::clone(&opened.pool), Arc::clone(&opened.pool));
    metrics.observe(&MetricsSetup {
        inference: Arc::new(move || {
            let gauges = inference
                .stats()
                .models
                .into_iter()
                .map(|m| InferenceGauges {
                    model: m.id,
                    texts: m.texts,
                    batches: m.batches,
                    tokens: m.tokens,
                });
            gauges.collect()
        }),
        queue: Arc::new(move || {
            let stats = queue.stats();
            (stats.interactive_queued as u64, stats.bulk_queued as u64)
        }),
        store: Arc::new(move || (points.load(Ordering::Relaxed), log.load(Ordering::Relaxed))),
    });
}

/// A worker from its configuration to its end.
///
/// # Errors
/// `InvalidField` for what the configuration gets wrong (exit 2), others for what failed.
pub async fn run_worker(
    config: &Config,
    with_setup: bool,
    telemetry: &Telemetry,
    worker: String,
    stop: CancellationToken,
) -> Result<()> {
    let _lock = match uses_data_folder(config) {
        true => Some(lock_data(&config.data_dir)?),
        false => None,
    };
    let health = Health::default();
    health.set("start", Some("the worker is starting".to_owned()));
    let pages = CancellationToken::new();
    let http = match config.telemetry.http_listen.as_str() {
        "" => None,
        address => Some(HttpServer::bind(address).await?),
    };
    let serving = http.map(|http| {
        tokio::spawn(http.serve(health.clone(), telemetry.prometheus(), pages.clone()))
    });
    let opened = open(config).await?;
    let served = async {
        let metrics = telemetry.metrics.clone();
        observe(&opened, &metrics, &stop);
        let Some(connection) = connected(config, &worker, &health, &metrics, &stop).await? else {
            return Ok(());
        };
        if with_setup {
            let highest = opened.registry.highest_sequence().await?;
            for change in setup_all(&connection, config, highest, &[]).await? {
                tracing::info!("{change}");
            }
        }
        let parts = parts(config, &opened, connection, worker, metrics, health.clone())?;
        tokio::spawn(comparing::compare(
            Arc::clone(&parts.registry),
            Arc::clone(&parts.store),
            parts.tenancy,
        ));
        serve(parts, &roles(config), stop).await
    }
    .await;
    // Ends in this order: what writes, then what is written to.
    opened.pool.close().await;
    let closed = opened.store.close().await;
    let left = opened.registry.close().await;
    pages.cancel();
    if let Some(serving) = serving {
        // A page that is still being read must not keep the process.
        let _ = tokio::time::timeout(PAGES_GRACE, serving).await;
    }
    served.and(closed).and(left)
}

/// Roles of later versions are accepted and have nothing to do yet.
fn roles(config: &Config) -> Vec<Role> {
    let role = |name: &RoleName| match name {
        RoleName::Ingest => Some(Role::Ingest),
        RoleName::Retrieve => Some(Role::Retrieve),
        RoleName::Tracker => Some(Role::Tracker),
        RoleName::Retention => Some(Role::Retention),
    };
    config.worker.roles.iter().filter_map(role).collect()
}

/// `ragbus setup`: reads the registry for its highest sequence and brings NATS up to date.
///
/// # Errors
/// `DependencyFailed` with what the server said.
pub async fn run_setup(config: &Config, tenants: &[TenantId]) -> Result<Vec<Change>> {
    let nats = &config.nats;
    let connection = connect(
        &nats.url,
        &nats.credentials,
        "ragbus-setup",
        WORKER_INBOX,
        None,
    )
    .await?;
    let highest = match storage::existing_registry(config).await? {
        Some(registry) => {
            let highest = registry.highest_sequence().await?;
            registry.close().await?;
            highest
        }
        None => 0,
    };
    let changes = setup_all(&connection, config, highest, tenants).await;
    connection.close().await;
    changes
}

async fn setup_all(
    connection: &Connection,
    config: &Config,
    highest: u64,
    tenants: &[TenantId],
) -> Result<Vec<Change>> {
    let replicas = config.nats.replicas;
    let mut changes = setup(connection, replicas, highest).await?;
    let schedule = &config.retention.schedule;
    let by_server = config.retention.tick_source != TickSource::Workers;
    changes.extend(setup_schedule(connection, replicas, schedule, by_server).await?);
    for tenant in tenants {
        let created = create_bucket(connection, tenant, replicas).await?;
        changes.push(Change {
            what: format!("bucket {}", bucket(tenant)),
            action: if created {
                Action::Created
            } else {
                Action::Unchanged
            },
        });
    }
    Ok(changes)
}
