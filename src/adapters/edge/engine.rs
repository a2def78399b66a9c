//! One open Qdrant Edge shard, and the only calls into it.
//!
//! The engine reports some conditions by panicking. Every call here catches that and makes it an `Internal` error, so
//! that neither the process nor the store is lost: the shard's handle is dropped and the next use opens it again from
//! what was flushed. (The standard panic hook still prints the engine's own message.) Must not know tenants or jobs.

use std::any::Any;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use qdrant_edge as qe;
use qdrant_edge::{EdgeShard, OperationError, OperationResult, UpdateOperation};

use super::files;
use crate::adapters::payload_names::{DOCUMENT, SEQUENCE, TENANT};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Leg, SparseVector};

const WAL_SEGMENT: usize = 4 * 1024 * 1024;
const FLUSH_PATIENCE: Duration = Duration::from_secs(30);
const FLUSH_PAUSE: Duration = Duration::from_millis(2);
const WAL_DIR: &str = "wal";

/// An open shard. Dropping the last handle flushes and closes it, and removes its folder when it became obsolete.
#[derive(Debug)]
pub(super) struct Engine {
    // `None` only while it is being dropped.
    shard: Option<EdgeShard>,
    dimension: u32,
    obsolete: Mutex<Option<PathBuf>>,
    // Dropped after the shard is closed: whoever holds a `Weak` of it sees when the folder is free.
    open: Arc<()>,
}

impl Engine {
    /// Creates a shard with its payload indexes; the folder must not exist. Durable when it returns.
    pub(super) fn create(path: &Path, dimension: u32) -> Result<Self> {
        files::create_dir(path)?;
        let shard = guarded("create", || EdgeShard::new(path, shard_config(dimension)))?;
        let engine = Self::over(shard, dimension);
        for (field, schema) in indexes() {
            let field_name = json_path(field)?;
            let create = qe::CreateIndex {
                field_name,
                field_schema: Some(schema),
            };
            let operation = qe::FieldIndexOperations::CreateIndex(create);
            engine.update(UpdateOperation::FieldIndexOperation(operation))?;
        }
        engine.flush()?;
        Ok(engine)
    }

    /// Opens a shard.
    pub(super) fn load(path: &Path, dimension: u32) -> Result<Self> {
        let config = shard_config(dimension);
        let shard = guarded("load", || EdgeShard::load(path, Some(config)))?;
        Ok(Self::over(shard, dimension))
    }

    fn over(shard: EdgeShard, dimension: u32) -> Self {
        Self {
            shard: Some(shard),
            dimension,
            obsolete: Mutex::new(None),
            open: Arc::new(()),
        }
    }

    /// Lives until the shard is closed.
    pub(super) fn liveness(&self) -> Weak<()> {
        Arc::downgrade(&self.open)
    }

    /// Removes `folder` once the last handle is gone.
    pub(super) fn retire(&self, folder: PathBuf) {
        *self.obsolete.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder);
    }

    /// Width of the dense vectors.
    pub(super) fn dimension(&self) -> u32 {
        self.dimension
    }

    /// Runs a read in the engine.
    pub(super) fn read<T>(
        &self,
        what: &'static str,
        call: impl FnOnce(&EdgeShard) -> OperationResult<T>,
    ) -> Result<T> {
        let shard = self.shard()?;
        guarded(what, || call(shard))
    }

    /// Applies one operation; the caller owns the shard's writes.
    pub(super) fn update(&self, operation: UpdateOperation) -> Result<()> {
        self.read("update", |shard| shard.update(operation))
    }

    /// Makes everything applied so far durable; the caller owns the shard's writes.
    ///
    /// The engine panics when it meets the moment in which an optimisation swaps segments: that is waited out here.
    pub(super) fn flush(&self) -> Result<()> {
        let shard = self.shard()?;
        let deadline = Instant::now() + FLUSH_PATIENCE;
        loop {
            let Err(panic) = catch_unwind(AssertUnwindSafe(|| shard.flush())) else {
                return Ok(());
            };
            let busy = panic_text(panic.as_ref()).contains("lock acquired");
            if !busy || Instant::now() > deadline {
                return Err(Error::internal("the vector engine panicked in flush"));
            }
            std::thread::sleep(FLUSH_PAUSE);
        }
    }

    /// Merges and indexes segments; runs beside updates, flushes and queries.
    pub(super) fn optimize(&self) -> Result<bool> {
        self.read("optimize", EdgeShard::optimize)
    }

    fn shard(&self) -> Result<&EdgeShard> {
        self.shard
            .as_ref()
            .ok_or_else(|| Error::internal("the shard is being closed"))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let shard = self.shard.take();
        // The engine flushes in its destructor, and panics when that fails.
        if catch_unwind(AssertUnwindSafe(|| drop(shard))).is_err() {
            tracing::error!("the vector engine panicked while a shard was closed");
        }
        let obsolete = self
            .obsolete
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(error) = obsolete.and_then(|folder| files::remove_dir(&folder).err()) {
            tracing::warn!(error = %error.chain(), "an obsolete shard folder stays until the next start");
        }
    }
}

fn shard_config(dimension: u32) -> qe::EdgeConfig {
    let dense = qe::EdgeVectorParams::builder(dimension as usize, qe::Distance::Cosine).build();
    let plain = qe::EdgeSparseVectorParamsBuilder::new();
    let idf = qe::EdgeSparseVectorParamsBuilder::new().modifier(qe::Modifier::Idf);
    qe::EdgeConfig::builder()
        .vector(Leg::Dense.name(), dense)
        .sparse_vector(Leg::Sparse.name(), plain.build())
        .sparse_vector(Leg::Bm25.name(), idf.build())
        // One indexing thread: optimisation must not starve queries.
        .hnsw_config(qe::HnswIndexConfig {
            max_indexing_threads: 1,
            ..Default::default()
        })
        .wal_options(qe::WalOptions {
            segment_capacity: WAL_SEGMENT,
            segment_queue_len: 0,
            retain_closed: NonZeroUsize::MIN,
        })
        .build()
}

fn indexes() -> [(&'static str, qe::PayloadFieldSchema); 3] {
    let tenant = qe::KeywordIndexParams {
        is_tenant: Some(true),
        ..Default::default()
    };
    let sequence = qe::IntegerIndexParams {
        lookup: Some(true),
        range: Some(true),
        enable_hnsw: Some(false),
        ..Default::default()
    };
    let document = qe::KeywordIndexParams {
        enable_hnsw: Some(false),
        ..Default::default()
    };
    let params = qe::PayloadFieldSchema::FieldParams;
    [
        (TENANT, params(qe::PayloadSchemaParams::Keyword(tenant))),
        (DOCUMENT, params(qe::PayloadSchemaParams::Keyword(document))),
        (SEQUENCE, params(qe::PayloadSchemaParams::Integer(sequence))),
    ]
}

/// Bytes of a shard folder's log, and of everything else in it.
pub(super) fn sizes(path: &Path) -> (u64, u64) {
    let wal = files::bytes(&path.join(WAL_DIR));
    (wal, files::bytes(path).saturating_sub(wal))
}

/// The engine's form of a payload path.
pub(super) fn json_path(path: &str) -> Result<qe::JsonPath> {
    qe::JsonPath::try_from(path).map_err(|_| Error::internal("a payload path is malformed"))
}

/// The engine's form of a sparse vector.
pub(super) fn sparse(vector: &SparseVector) -> qe::SparseVector {
    qe::SparseVector {
        indices: vector.indices.clone(),
        values: vector.values.clone(),
    }
}

fn guarded<T>(what: &'static str, call: impl FnOnce() -> OperationResult<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(cause)) => Err(engine_error(what, cause)),
        // The panic's text may quote what was stored: it stays out of the error.
        Err(_) => Err(Error::internal(format!(
            "the vector engine panicked in {what}"
        ))),
    }
}

/// Only a service error's text (files, logs, memory) is kept: the others may quote values.
fn engine_error(what: &'static str, cause: OperationError) -> Error {
    let service = matches!(cause, OperationError::ServiceError { .. });
    let kind = if service {
        ErrorKind::DependencyFailed
    } else {
        ErrorKind::Internal
    };
    let error = Error::new(kind, format!("the vector engine failed in {what}"));
    if service {
        error.caused_by(cause)
    } else {
        error
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        (None, None) => "",
    }
}
