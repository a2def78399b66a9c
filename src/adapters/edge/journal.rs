//! The journal of deletions made while a shard is optimised.
//!
//! The engine keeps such deletions in memory until the optimisation ends, and a flush does not write them: after
//! `kill -9` the deleted points would be back, and replaced ones would stand twice. So this file exists from before an
//! optimisation begins until its result is flushed. A shard that is opened while it exists is copied without the
//! points it names (the copy also drops what stands twice). Must not know the engine.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::files;
use crate::error::Result;
use crate::model::ChunkId;

const DELETED: u8 = b'-';
const WRITTEN: u8 = b'+';
const RECORD: usize = 17;

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    deleted: HashSet<ChunkId>,
    dirty: bool,
}

impl Journal {
    /// Begins a journal; durable when it returns.
    pub(super) fn begin(path: &Path) -> Result<Self> {
        let open = || -> io::Result<File> {
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            file.sync_all()?;
            files::sync_parent(path)?;
            Ok(file)
        };
        let file = open().map_err(|cause| files::failed("begin", path, cause))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            deleted: HashSet::new(),
            dirty: false,
        })
    }

    /// Notes deleted points.
    pub(super) fn deleted(&mut self, ids: &[ChunkId]) -> Result<()> {
        self.deleted.extend(ids);
        self.append(DELETED, ids)
    }

    /// Notes written points: those deleted before are back.
    pub(super) fn written(&mut self, ids: impl Iterator<Item = ChunkId>) -> Result<()> {
        let back: Vec<ChunkId> = ids.filter(|id| self.deleted.remove(id)).collect();
        self.append(WRITTEN, &back)
    }

    /// Makes the notes durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        if std::mem::take(&mut self.dirty) {
            let synced = self.file.sync_data();
            synced.map_err(|cause| files::failed("sync", &self.path, cause))?;
        }
        Ok(())
    }

    /// Ends the journal: what it holds is in the shard now.
    pub(super) fn end(self) -> Result<()> {
        files::remove_file(&self.path)
    }

    fn append(&mut self, tag: u8, ids: &[ChunkId]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let mut text = Vec::with_capacity(ids.len() * RECORD);
        for id in ids {
            text.push(tag);
            text.extend_from_slice(&id.0.to_be_bytes());
        }
        self.dirty = true;
        self.file
            .write_all(&text)
            .map_err(|cause| files::failed("write", &self.path, cause))
    }
}

/// What a journal left behind says is deleted; `None` when there is none. A torn last record was never acknowledged.
pub(super) fn left_behind(path: &Path) -> Result<Option<HashSet<ChunkId>>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(files::failed("read", path, cause)),
    };
    let mut deleted = HashSet::new();
    for record in text.chunks_exact(RECORD) {
        let id = record[1..]
            .iter()
            .fold(0u128, |id, byte| (id << 8) | u128::from(*byte));
        if record[0] == DELETED {
            deleted.insert(ChunkId(id));
        } else {
            deleted.remove(&ChunkId(id));
        }
    }
    Ok(Some(deleted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_note_about_a_point_counts_and_a_torn_one_does_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("j");
        assert_eq!(left_behind(&path).expect("read"), None);
        let mut journal = Journal::begin(&path).expect("begun");
        journal
            .deleted(&[ChunkId(1), ChunkId(u128::MAX)])
            .expect("noted");
        journal
            .written([ChunkId(1), ChunkId(7)].into_iter())
            .expect("noted");
        journal.sync().expect("synced");
        journal.file.write_all(&[DELETED, 0, 0]).expect("torn");
        let left = left_behind(&path).expect("read").expect("there");
        assert_eq!(left, HashSet::from([ChunkId(u128::MAX)]));
        journal.end().expect("ended");
        assert_eq!(left_behind(&path).expect("read"), None);
    }
}
