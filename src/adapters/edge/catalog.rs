//! Which generations of a corpus live for a tenant, on disk and in memory.
//!
//! A corpus exists for a tenant because an alias file says so, never because a collection does. An alias stays as a
//! tombstone, so that a dropped generation can't come back. Must not know shards.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::files;
use crate::error::{Error, ErrorKind, Result};
use crate::model::CorpusRef;
use crate::tenancy::Placement;

const SUFFIX: &str = ".json";

/// One alias file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Alias {
    /// Generation to collection; the highest that is not being built is served.
    live: BTreeMap<u32, String>,
    /// Those of them that are being built.
    #[serde(default)]
    building: BTreeSet<u32>,
    /// The highest dropped generation.
    dropped: u32,
    /// Dropped collections that belonged to this corpus alone: their folders may go.
    #[serde(default)]
    buried: BTreeSet<String>,
}

/// What an alias says about a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Live,
    /// Like live, but not served yet.
    Building,
    Dropped,
    Unknown,
}

type Key = (String, String);

/// All aliases. Files are read once, when it is opened, and written through.
#[derive(Debug)]
pub(super) struct Catalog {
    dir: PathBuf,
    // A corrupt file fails the calls for its corpus only.
    aliases: Mutex<HashMap<Key, Result<Alias, PathBuf>>>,
}

impl Catalog {
    /// Reads every alias under a folder.
    pub(super) fn open(dir: PathBuf) -> Result<Self> {
        files::create_dir(&dir)?;
        let mut aliases = HashMap::new();
        for tenant in files::names(&dir)? {
            let folder = dir.join(&tenant);
            for name in files::names(&folder)? {
                let Some(corpus) = name.strip_suffix(SUFFIX) else {
                    continue;
                };
                let read = read(&folder.join(&name));
                aliases.insert((tenant.clone(), corpus.to_owned()), read);
            }
        }
        Ok(Self {
            dir,
            aliases: Mutex::new(aliases),
        })
    }

    /// The served generation and its collection.
    pub(super) fn served(&self, corpus: &CorpusRef) -> Result<Option<(u32, String)>> {
        let aliases = self.lock();
        let alias = known(&aliases, corpus)?;
        let served = alias.and_then(|alias| {
            let mut newest_first = alias.live.iter().rev();
            newest_first.find(|(generation, _)| !alias.building.contains(generation))
        });
        Ok(served.map(|(generation, collection)| (*generation, collection.clone())))
    }

    /// Whether this generation lives for this tenant.
    pub(super) fn standing(&self, at: &Placement) -> Result<Standing> {
        let aliases = self.lock();
        let alias = known(&aliases, &at.corpus)?;
        Ok(match alias {
            Some(alias) if alias.live.get(&at.generation) == Some(&at.collection) => {
                match alias.building.contains(&at.generation) {
                    true => Standing::Building,
                    false => Standing::Live,
                }
            }
            Some(alias) if at.generation <= alias.dropped => Standing::Dropped,
            Some(_) | None => Standing::Unknown,
        })
    }

    /// Makes a generation live. Durable when it returns.
    pub(super) fn add(&self, at: &Placement) -> Result<()> {
        self.change(&at.corpus, |alias| {
            alias.live.insert(at.generation, at.collection.clone());
            alias.building.remove(&at.generation);
        })
    }

    /// Makes a generation live that is not served yet. Durable when it returns.
    pub(super) fn add_building(&self, at: &Placement) -> Result<()> {
        self.change(&at.corpus, |alias| {
            alias.live.insert(at.generation, at.collection.clone());
            alias.building.insert(at.generation);
        })
    }

    /// Makes a generation dropped. Durable when it returns.
    pub(super) fn bury(&self, at: &Placement) -> Result<()> {
        self.change(&at.corpus, |alias| {
            alias.live.remove(&at.generation);
            alias.building.remove(&at.generation);
            if !at.shared {
                alias.buried.insert(at.collection.clone());
            }
            alias.dropped = alias.dropped.max(at.generation);
        })
    }

    /// The collections that live for somebody, and those whose folders may go. Nothing else is ever removed.
    pub(super) fn collections(&self) -> (HashSet<String>, HashSet<String>) {
        let aliases = self.lock();
        let (mut live, mut buried) = (HashSet::new(), HashSet::new());
        for alias in aliases.values().flatten() {
            live.extend(alias.live.values().cloned());
            buried.extend(alias.buried.iter().cloned());
        }
        (live, buried)
    }

    fn change(&self, corpus: &CorpusRef, edit: impl FnOnce(&mut Alias)) -> Result<()> {
        let mut aliases = self.lock();
        let before = known(&aliases, corpus)?;
        let mut alias = before.cloned().unwrap_or_default();
        edit(&mut alias);
        if before == Some(&alias) {
            return Ok(());
        }
        let folder = self.dir.join(corpus.tenant.as_str());
        if before.is_none() {
            files::create_dir(&folder)?;
        }
        files::write_json(&folder.join(format!("{}{SUFFIX}", corpus.corpus)), &alias)?;
        aliases.insert(key(corpus), Ok(alias));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Result<Alias, PathBuf>>> {
        self.aliases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> Result<Alias, PathBuf> {
    match files::read_json(path) {
        Ok(alias) => Ok(alias.unwrap_or_default()),
        Err(error) => {
            tracing::error!(error = %error.chain(), "an alias can't be read");
            Err(path.to_owned())
        }
    }
}

fn known<'a>(
    aliases: &'a HashMap<Key, Result<Alias, PathBuf>>,
    corpus: &CorpusRef,
) -> Result<Option<&'a Alias>> {
    match aliases.get(&key(corpus)) {
        None => Ok(None),
        Some(Ok(alias)) => Ok(Some(alias)),
        Some(Err(path)) => Err(Error::new(
            ErrorKind::DependencyFailed,
            format!("the store file {} is corrupt", path.display()),
        )),
    }
}

fn key(corpus: &CorpusRef) -> Key {
    (
        corpus.tenant.as_str().to_owned(),
        corpus.corpus.as_str().to_owned(),
    )
}
