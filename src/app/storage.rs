//! Where a worker's data is: the document registry and the vector store, as configured.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::adapters::edge::{EdgeConfig, EdgeVectorStore};
use crate::adapters::postgres::PostgresRegistry;
use crate::adapters::qdrant::{HnswOptions, QdrantConfig, QdrantVectorStore, Quantization};
use crate::adapters::sqlite::SqliteRegistry;
use crate::config::{Config, QdrantSection, QuantizationKind, StoreKind};
use crate::error::{Error, Result};
use crate::spi::{
    DocumentRegistry, RebuildRegistry, RetentionRegistry, RetrievalAnalysis, RetrievalTracker,
    VectorStore,
};

/// Holds the data folder for this process; released when dropped, or killed.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
}

/// Takes the data folder before anything in it is opened.
///
/// # Errors
/// `InvalidField` on `data_dir` when another process holds it or it can't be written.
pub fn lock_data(dir: &Path) -> Result<DataLock> {
    let unusable = |e| {
        Error::invalid_field("data_dir", format!("{} can't be used", dir.display())).caused_by(e)
    };
    std::fs::create_dir_all(dir).map_err(unusable)?;
    let file = File::create(dir.join("lock")).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => Ok(DataLock { _file: file }),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::invalid_field(
            "data_dir",
            format!(
                "{} is in use by another worker: the embedded store belongs to one process. \
                 Stop that worker, or set another data_dir",
                dir.display()
            ),
        )),
        Err(std::fs::TryLockError::Error(e)) => Err(unusable(e)),
    }
}

/// Where the registry's SQLite file is.
fn sqlite_path(config: &Config) -> PathBuf {
    let url = config.sql.url.expose();
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        config.data_dir.join("ragbus.db")
    } else {
        PathBuf::from(path)
    }
}

/// Whether a part of the data lies in the data folder, which then belongs to this process alone.
pub fn uses_data_folder(config: &Config) -> bool {
    config.store.kind == StoreKind::Edge || !is_postgres(config)
}

fn is_postgres(config: &Config) -> bool {
    let url = config.sql.url.expose();
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

/// SQLite writes a record's rows one by one under the file's one write lock.
const SQLITE_BATCH: usize = 200;
const POSTGRES_BATCH: usize = 500;

/// Records of one batch at most.
pub(super) fn tracker_batch(config: &Config) -> usize {
    match is_postgres(config) {
        true => POSTGRES_BATCH,
        false => SQLITE_BATCH,
    }
}

/// What the SQL database holds, by its ports.
pub(super) struct OpenedSql {
    pub(super) documents: Arc<dyn DocumentRegistry>,
    pub(super) rebuilds: Arc<dyn RebuildRegistry>,
    pub(super) retention: Arc<dyn RetentionRegistry>,
    pub(super) tracker: Arc<dyn RetrievalTracker>,
    pub(super) analysis: Arc<dyn RetrievalAnalysis>,
}

/// Postgres and SQLite answer to the same ports, by types of their own.
macro_rules! opened {
    ($registry:expr) => {{
        let (registry, tracker) = (Arc::new($registry.clone()), Arc::new($registry.tracker()));
        OpenedSql {
            documents: registry.clone(),
            rebuilds: registry.clone(),
            retention: registry,
            tracker: tracker.clone(),
            analysis: tracker,
        }
    }};
}

/// Opens the database and brings its schema up to date.
pub(super) async fn sql(config: &Config) -> Result<OpenedSql> {
    if is_postgres(config) {
        let url = config.sql.url.expose();
        let registry = PostgresRegistry::open(url, config.sql.max_connections).await?;
        return Ok(opened!(registry));
    }
    let registry = SqliteRegistry::open(&sqlite_path(config)).await?;
    Ok(opened!(registry))
}

/// The registry, unless it is a file that isn't there yet: then nothing has a sequence.
pub(super) async fn existing_registry(
    config: &Config,
) -> Result<Option<Arc<dyn DocumentRegistry>>> {
    if !is_postgres(config) && !sqlite_path(config).exists() {
        return Ok(None);
    }
    sql(config).await.map(|opened| Some(opened.documents))
}

fn qdrant(section: &QdrantSection) -> QdrantConfig {
    let set = |value: u32| Some(value).filter(|value| *value > 0);
    let key = section.api_key.expose();
    QdrantConfig {
        api_key: Some(key.to_owned()).filter(|key| !key.is_empty()),
        collection_prefix: section.collection_prefix.clone(),
        timeout: Duration::from_millis(section.timeout_ms.into()),
        shards: set(section.shards),
        replication_factor: set(section.replicas),
        quantization: match section.quantization {
            QuantizationKind::None => Quantization::None,
            QuantizationKind::Scalar => Quantization::Scalar,
            QuantizationKind::Binary => Quantization::Binary,
        },
        hnsw: HnswOptions {
            m: set(section.hnsw_m),
            ef_construct: set(section.hnsw_ef_construct),
            ef_search: set(section.hnsw_ef_search),
            ..HnswOptions::default()
        },
        ..QdrantConfig::new(section.url.clone())
    }
}

/// The vector store, and the embedded one by its own name when it is that: it has figures of its own.
pub(super) type OpenedStore = (Arc<dyn VectorStore>, Option<Arc<EdgeVectorStore>>);

/// Opens the store.
pub(super) async fn store(config: &Config) -> Result<OpenedStore> {
    if config.store.kind == StoreKind::Qdrant {
        let store = QdrantVectorStore::new(qdrant(&config.store.qdrant))?;
        return Ok((Arc::new(store), None));
    }
    let edge = EdgeConfig::new(config.data_dir.join("edge"));
    let store = tokio::task::spawn_blocking(move || EdgeVectorStore::open(edge))
        .await
        .map_err(|e| Error::internal("opening the store panicked").caused_by(e))??;
    let store = Arc::new(store);
    Ok((Arc::clone(&store) as Arc<dyn VectorStore>, Some(store)))
}
