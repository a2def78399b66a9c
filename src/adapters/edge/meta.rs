//! `ragbus.json`: what a collection folder holds and which subfolder of it is the shard.
//! Must not know the engine.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{CollectionSchema, Distance};

const FILE: &str = "ragbus.json";
const JOURNAL: &str = "deletions.journal";

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Meta {
    schema_version: u32,
    dense_model: String,
    sparse_model: String,
    dimension: u32,
    distance: String,
    /// Absent in folders of schema version 1.
    #[serde(default)]
    lexical: String,
    /// The number of the current shard folder; a compaction writes the next one.
    pub(super) shard: u32,
}

impl Meta {
    /// Of a new collection.
    pub(super) fn new(schema: &CollectionSchema) -> Self {
        Self {
            schema_version: schema.version,
            dense_model: schema.dense_model.clone(),
            sparse_model: schema.sparse_model.clone(),
            dimension: schema.dimension,
            distance: schema.distance.name().to_owned(),
            lexical: schema.lexical.clone(),
            shard: 1,
        }
    }

    /// What a collection without the file is, when an alias names it: not half created, but damaged.
    pub(super) fn lost(folder: &Path) -> Error {
        let path = folder.join(FILE);
        Error::new(
            ErrorKind::DependencyFailed,
            format!("the store file {} is missing", path.display()),
        )
    }

    /// Reads it; `None` when it isn't there.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        let meta: Option<Self> = files::read_json(&path)?;
        match meta {
            Some(meta) if meta.distance != Distance::Cosine.name() => Err(Error::dependency(
                format!("the store file {} is corrupt", path.display()),
                "it names an unknown distance",
            )),
            meta => Ok(meta),
        }
    }

    /// Writes it; durable when it returns.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        files::write_json(&folder.join(FILE), self)
    }

    /// The schema it was created with.
    pub(super) fn schema(&self) -> CollectionSchema {
        CollectionSchema {
            version: self.schema_version,
            dense_model: self.dense_model.clone(),
            sparse_model: self.sparse_model.clone(),
            dimension: self.dimension,
            distance: Distance::Cosine,
            lexical: self.lexical.clone(),
        }
    }

    /// Width of the dense vectors.
    pub(super) fn dimension(&self) -> u32 {
        self.dimension
    }
}

/// Where a collection's numbered shard folder is.
pub(super) fn shard_dir(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("shard-{number}"))
}

/// Where a collection's journal is.
pub(super) fn journal(folder: &Path) -> PathBuf {
    folder.join(JOURNAL)
}
