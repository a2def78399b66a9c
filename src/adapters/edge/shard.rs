//! The life of one collection's shard: opened on demand, written by one holder of its gate, closed when idle.
//!
//! Locks, in this order: `gate` (writes, opening, closing, switching folders; held as long as that takes), `handle`
//! (for moments). Readers take the gate only when the shard has to be opened. Must not know tenants' aliases.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use super::compact;
use super::config::EdgeConfig;
use super::engine::{Engine, sizes};
use super::files;
use super::journal::{Journal, left_behind};
use super::meta::{self, Meta};
use super::writer::Queue;
use crate::error::{Error, ErrorKind, Result};
use crate::model::CollectionSchema;

const CLOSING_PATIENCE: Duration = Duration::from_secs(30);
const CLOSING_PAUSE: Duration = Duration::from_millis(1);

/// One collection.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) schema: CollectionSchema,
    config: Arc<EdgeConfig>,
    pub(super) queue: Queue,
    gate: Mutex<Gate>,
    handle: RwLock<Option<Arc<Engine>>>,
    started: Instant,
    used_ms: AtomicU64,
    written_ms: AtomicU64,
    /// The number of the current shard folder, for figures: the gate's `meta` decides.
    pub(super) number: AtomicU32,
    /// Points changed since the last optimisation.
    pub(super) changes: AtomicU64,
    /// Set when an optimisation failed: none is tried until the next start.
    pub(super) no_optimize: AtomicBool,
}

/// What only the gate's holder may touch.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) meta: Meta,
    pub(super) dropped: bool,
    /// Present from before an optimisation until its result is flushed.
    pub(super) journal: Option<Journal>,
    /// Set when the engine's log turned out to be behind its data.
    pub(super) copy_at_open: bool,
    /// A closed handle that readers may still hold: the folder can't be opened again before it is gone.
    closing: Weak<()>,
}

impl Shard {
    /// Of a collection folder whose `ragbus.json` was read.
    pub(super) fn new(name: String, folder: PathBuf, meta: Meta, config: Arc<EdgeConfig>) -> Self {
        let number = meta.shard;
        Self {
            name,
            folder,
            schema: meta.schema(),
            config,
            queue: Queue::default(),
            gate: Mutex::new(Gate {
                meta,
                dropped: false,
                journal: None,
                copy_at_open: false,
                closing: Weak::new(),
            }),
            handle: RwLock::new(None),
            started: Instant::now(),
            used_ms: AtomicU64::new(0),
            written_ms: AtomicU64::new(0),
            number: AtomicU32::new(number),
            changes: AtomicU64::new(0),
            no_optimize: AtomicBool::new(false),
        }
    }

    /// Creates a collection in a folder that holds nothing, or what an interrupted creation left.
    pub(super) fn create(
        name: &str,
        folder: &Path,
        schema: &CollectionSchema,
        config: Arc<EdgeConfig>,
    ) -> Result<Self> {
        files::remove_dir(folder)?;
        files::create_dir(folder)?;
        let meta = Meta::new(schema);
        let engine = Engine::create(&meta::shard_dir(folder, meta.shard), schema.dimension)?;
        meta.write(folder)?;
        let shard = Self::new(name.to_owned(), folder.to_owned(), meta, config);
        shard.set(Some(Arc::new(engine)));
        shard.touch();
        Ok(shard)
    }

    /// A handle for reading. Counts as use.
    pub(super) fn reader(&self) -> Result<Arc<Engine>> {
        self.touch();
        match self.current() {
            Some(engine) => Ok(engine),
            None => self.open(&mut self.gate()),
        }
    }

    /// The gate: whoever holds it owns the shard's writes.
    pub(super) fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open handle, if there is one.
    pub(super) fn current(&self) -> Option<Arc<Engine>> {
        self.handle
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The handle, opened if need be; repairs and compacts the shard before anybody sees it.
    ///
    /// # Errors
    /// `NotFound` after a drop; `Overloaded` when a closing handle stays in use.
    pub(super) fn open(&self, gate: &mut Gate) -> Result<Arc<Engine>> {
        if gate.dropped {
            return Err(gone());
        }
        if let Some(engine) = self.current() {
            return Ok(engine);
        }
        wait_for(&gate.closing)?;
        self.sweep(gate)?;
        let path = meta::shard_dir(&self.folder, gate.meta.shard);
        let loaded = Engine::load(&path, gate.meta.dimension())?;
        // Whatever the last process left unindexed is looked at once.
        self.changes
            .store(self.config.optimize_after, Ordering::Relaxed);
        let engine = match left_behind(&meta::journal(&self.folder))? {
            Some(deleted) => {
                tracing::warn!(collection = %self.name, "repairing a shard that was killed while it was optimised");
                let copied = compact::copy(&loaded, self, gate, &deleted)?;
                files::remove_file(&meta::journal(&self.folder))?;
                copied
            }
            None if gate.copy_at_open || self.log_too_large() => {
                compact::copy(&loaded, self, gate, &[].into())?
            }
            None => loaded,
        };
        gate.copy_at_open = false;
        let engine = Arc::new(engine);
        self.set(Some(engine.clone()));
        Ok(engine)
    }

    /// Copies the open shard into a new folder when its log has grown too large. Readers go on meanwhile.
    pub(super) fn compact(&self, gate: &mut Gate) -> Result<bool> {
        let Some(engine) = self.current() else {
            return Ok(false);
        };
        if gate.journal.is_some() || !self.log_too_large() {
            return Ok(false);
        }
        let copied = compact::copy(&engine, self, gate, &[].into())?;
        self.set(Some(Arc::new(copied)));
        Ok(true)
    }

    /// Closes the shard if nobody holds it.
    pub(super) fn close_unused(&self, gate: &Gate) -> bool {
        if gate.journal.is_some() {
            return false;
        }
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        // Clones are made under this lock only, so a count of 1 stays 1.
        if handle
            .as_ref()
            .is_some_and(|engine| Arc::strong_count(engine) > 1)
        {
            return false;
        }
        let closed = handle.take();
        drop(handle);
        drop(closed);
        true
    }

    /// Gives the handle up, whoever still reads through it: after a failure inside the engine, or a drop.
    pub(super) fn abandon(&self, gate: &mut Gate) {
        if let Some(engine) = self
            .handle
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            gate.closing = engine.liveness();
        }
        // The file stays: the next opening repairs the shard by it.
        gate.journal = None;
    }

    /// Drops the collection: its folder goes with the last handle.
    pub(super) fn drop_collection(&self) -> Result<()> {
        let mut gate = self.gate();
        gate.dropped = true;
        let engine = self.current();
        self.abandon(&mut gate);
        match engine {
            Some(engine) => {
                engine.retire(self.folder.clone());
                Ok(())
            }
            None => files::remove_dir(&self.folder),
        }
    }

    /// Bytes of the log, and of everything else; open or not.
    pub(super) fn sizes(&self) -> (u64, u64) {
        sizes(&meta::shard_dir(
            &self.folder,
            self.number.load(Ordering::Relaxed),
        ))
    }

    /// How long nobody wrote.
    pub(super) fn quiet(&self) -> Duration {
        self.since(&self.written_ms)
    }

    /// Counts as a write.
    pub(super) fn wrote(&self) {
        self.touch();
        self.written_ms
            .store(self.used_ms.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// How long nobody used the shard.
    pub(super) fn idle(&self) -> Duration {
        self.since(&self.used_ms)
    }

    fn since(&self, then: &AtomicU64) -> Duration {
        let then = Duration::from_millis(then.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(then)
    }

    /// Counts as use.
    pub(super) fn touch(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.used_ms.store(now, Ordering::Relaxed);
    }

    fn log_too_large(&self) -> bool {
        let (wal, data) = self.sizes();
        self.config.wal_too_large(wal, data)
    }

    fn set(&self, engine: Option<Arc<Engine>>) {
        *self.handle.write().unwrap_or_else(PoisonError::into_inner) = engine;
    }

    /// Removes shard folders that an interrupted compaction left, before or after its switch.
    fn sweep(&self, gate: &Gate) -> Result<()> {
        let current = meta::shard_dir(&self.folder, gate.meta.shard);
        for name in files::names(&self.folder)? {
            let path = self.folder.join(&name);
            if name.starts_with("shard-") && path != current {
                files::remove_dir(&path)?;
            }
        }
        Ok(())
    }
}

/// What a dropped or never created collection is to a caller.
pub(super) fn gone() -> Error {
    Error::new(ErrorKind::NotFound, "the corpus has no such generation")
}

fn wait_for(closing: &Weak<()>) -> Result<()> {
    let deadline = Instant::now() + CLOSING_PATIENCE;
    while closing.strong_count() > 0 {
        if Instant::now() > deadline {
            return Err(Error::new(
                ErrorKind::Overloaded,
                "the shard is still being closed",
            ));
        }
        std::thread::sleep(CLOSING_PAUSE);
    }
    Ok(())
}
