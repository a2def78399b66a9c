//! What the store's calls and its threads share: the catalog, the shards, and how a collection comes and goes.
//! Must not know async.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::catalog::{Catalog, Standing};
use super::config::EdgeConfig;
use super::engine::Engine;
use super::files;
use super::meta::Meta;
use super::shard::{Shard, gone};
use super::upkeep;
use super::writer::{Pool, closed};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{CollectionSchema, CorpusRef};
use crate::spi::CollectionInfo;
use crate::tenancy::Placement;

const COLLECTIONS: &str = "collections";
const ALIASES: &str = "aliases";
const CLOSE_PAUSE: Duration = Duration::from_millis(5);

/// The store without its async face.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) config: Arc<EdgeConfig>,
    pub(super) pool: Pool,
    catalog: Catalog,
    shards: RwLock<HashMap<String, Arc<Shard>>>,
    // Collections whose `ragbus.json` can't be read, with what to say.
    corrupt: HashMap<String, String>,
    // Creation and drop are rare: one at a time.
    changing: Mutex<()>,
    stopped: AtomicBool,
    tending: Mutex<bool>,
    tend: Condvar,
}

impl Inner {
    /// Reads what is under the folder, and removes what was dropped or never finished.
    pub(super) fn open(config: EdgeConfig) -> Result<Self> {
        let config = Arc::new(config);
        files::create_dir(&config.dir)?;
        let catalog = Catalog::open(config.dir.join(ALIASES))?;
        let folder = config.dir.join(COLLECTIONS);
        files::create_dir(&folder)?;
        let (live, buried) = catalog.collections();
        let mut shards = HashMap::new();
        let mut corrupt = HashMap::new();
        for name in files::names(&folder)? {
            let path = folder.join(&name);
            if buried.contains(&name) {
                files::remove_dir(&path)?;
                continue;
            }
            let read = Meta::read(&path);
            match read.and_then(|meta| meta.ok_or_else(|| Meta::lost(&path))) {
                Ok(meta) => {
                    let shard = Shard::new(name.clone(), path, meta, config.clone());
                    shards.insert(name, Arc::new(shard));
                }
                // Half created: nobody was ever told of it. `ensure` creates it anew.
                Err(_) if !live.contains(&name) => files::remove_dir(&path)?,
                Err(error) => {
                    tracing::error!(error = %error.chain(), "a collection can't be read");
                    corrupt.insert(name, error.message().to_owned());
                }
            }
        }
        for name in live {
            let path = folder.join(&name);
            if !path.exists() {
                let problem = Meta::lost(&path).message().to_owned();
                tracing::error!(problem, "a collection is missing");
                corrupt.insert(name, problem);
            }
        }
        Ok(Self {
            pool: Pool::new(config.max_queued),
            config,
            catalog,
            shards: RwLock::new(shards),
            corrupt,
            changing: Mutex::default(),
            stopped: AtomicBool::new(false),
            tending: Mutex::new(false),
            tend: Condvar::new(),
        })
    }

    /// Refuses work after `close`.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.stopped.load(Ordering::Acquire) {
            Err(closed())
        } else {
            Ok(())
        }
    }

    /// What is served; from memory.
    pub(super) fn describe(&self, corpus: &CorpusRef) -> Result<Option<CollectionInfo>> {
        let Some((generation, collection)) = self.catalog.served(corpus)? else {
            return Ok(None);
        };
        let schema = self.by_name(&collection)?.schema.clone();
        Ok(Some(CollectionInfo { generation, schema }))
    }

    /// The shard of a placement that lives for its tenant.
    pub(super) fn shard(&self, at: &Placement) -> Result<Arc<Shard>> {
        match self.catalog.standing(at)? {
            Standing::Live | Standing::Building => self.by_name(&at.collection),
            Standing::Dropped | Standing::Unknown => Err(gone()),
        }
    }

    /// The same, `None` instead of `NotFound`.
    pub(super) fn find(&self, at: &Placement) -> Result<Option<Arc<Shard>>> {
        absent_is_none(self.shard(at))
    }

    /// Whether `ensure` has nothing to do; from memory.
    pub(super) fn is_ensured(&self, at: &Placement, schema: &CollectionSchema) -> Result<bool> {
        match self.catalog.standing(at)? {
            Standing::Live => {
                self.by_name(&at.collection)?.schema.require(schema)?;
                Ok(true)
            }
            Standing::Dropped => Err(gone()),
            Standing::Building | Standing::Unknown => Ok(false),
        }
    }

    /// Creates what is missing: shard, `ragbus.json`, alias, in this order.
    pub(super) fn ensure(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_open()?;
        if self.is_ensured(at, schema)? {
            return Ok(());
        }
        self.create(at, schema)?;
        self.catalog.add(at)
    }

    /// The same beside what is served.
    pub(super) fn prepare(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_open()?;
        if self.is_ensured(at, schema)? {
            return Ok(());
        }
        self.create(at, schema)?;
        self.catalog.add_building(at)
    }

    /// Serves what was prepared.
    pub(super) fn serve(&self, at: &Placement) -> Result<()> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_open()?;
        match self.catalog.standing(at)? {
            Standing::Live => Ok(()),
            Standing::Building => self.catalog.add(at),
            Standing::Dropped | Standing::Unknown => Err(gone()),
        }
    }

    /// The shard and its `ragbus.json`; what is there has to be of this schema.
    fn create(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        match absent_is_none(self.by_name(&at.collection))? {
            Some(shard) => shard.schema.require(schema)?,
            None => {
                let folder = self.config.dir.join(COLLECTIONS).join(&at.collection);
                let shard = Shard::create(&at.collection, &folder, schema, self.config.clone())?;
                let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
                shards.insert(at.collection.clone(), Arc::new(shard));
            }
        }
        Ok(())
    }

    /// Writes the tombstone and, unless others share the collection, drops it. Returns the shard whose points of the
    /// tenant are left to delete. Called again after an interruption it does what was left.
    pub(super) fn bury(&self, at: &Placement) -> Result<Option<Arc<Shard>>> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_open()?;
        self.catalog.bury(at)?;
        let Some(shard) = absent_is_none(self.by_name(&at.collection))? else {
            return Ok(None);
        };
        if at.shared {
            return Ok(Some(shard));
        }
        self.shards
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&at.collection);
        shard.drop_collection()?;
        Ok(None)
    }

    /// Every collection.
    pub(super) fn all(&self) -> Vec<Arc<Shard>> {
        let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner);
        shards.values().cloned().collect()
    }

    /// Wakes the upkeep thread.
    pub(super) fn nudge(&self) {
        *self.tending.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.tend.notify_all();
    }

    /// The upkeep thread: until the store is closed.
    pub(super) fn keep_up(&self) {
        let pause =
            (self.config.idle_close / 4).clamp(Duration::from_millis(20), Duration::from_secs(30));
        while !self.stopped.load(Ordering::Acquire) {
            for shard in self.all() {
                if !self.stopped.load(Ordering::Acquire) {
                    upkeep::tend(&shard, &self.config);
                }
            }
            let nudged = self.tending.lock().unwrap_or_else(PoisonError::into_inner);
            let stay = |nudged: &mut bool| !*nudged && !self.stopped.load(Ordering::Acquire);
            let waited = self.tend.wait_timeout_while(nudged, pause, stay);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        }
    }

    /// Lets the threads end: writers when nothing waits any more.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.pool.stop();
        self.nudge();
    }

    /// Flushes and closes every shard; waits for those who still read or optimise, within the configured time.
    pub(super) fn close_shards(&self) {
        let deadline = Instant::now() + self.config.close_wait;
        for shard in self.all() {
            loop {
                let gate = shard.gate();
                if shard.current().is_none() || shard.close_unused(&gate) {
                    break;
                }
                drop(gate);
                if Instant::now() > deadline {
                    tracing::warn!(collection = %shard.name, "a shard is left open: it is still in use");
                    break;
                }
                std::thread::sleep(CLOSE_PAUSE);
            }
        }
    }

    /// A shard's handle for reading.
    pub(super) fn reader(&self, at: &Placement) -> Result<Arc<Engine>> {
        self.shard(at)?.reader()
    }

    fn by_name(&self, collection: &str) -> Result<Arc<Shard>> {
        if let Some(problem) = self.corrupt.get(collection) {
            return Err(Error::new(ErrorKind::DependencyFailed, problem.clone()));
        }
        let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner);
        shards.get(collection).cloned().ok_or_else(gone)
    }
}

/// `NotFound` as `None`.
pub(super) fn absent_is_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
