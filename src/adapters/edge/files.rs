//! Durable small files: written beside, synced, renamed, and the folder synced. Must not know what is in them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Replaces a file so that a reader, or a restart after `kill -9`, sees the old or the new one.
pub(super) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|cause| Error::internal("cannot serialise a store file").caused_by(cause))?;
    replace(path, &text).map_err(|cause| failed("write", path, cause))
}

/// Reads a file; `None` when it isn't there.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed("read", path, cause)),
    };
    match serde_json::from_slice(&text) {
        Ok(value) => Ok(Some(value)),
        Err(cause) => Err(Error::dependency(
            format!("the store file {} is corrupt", path.display()),
            cause,
        )),
    }
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    let mut file = File::create(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_parent(path)
}

/// Makes an entry's creation, renaming or removal durable.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Creates a folder and makes it durable; one that exists is fine.
pub(super) fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path)
        .and_then(|()| sync_parent(path))
        .map_err(|cause| failed("create", path, cause))
}

/// Removes a folder and what is in it; an absent one is fine.
pub(super) fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Ok(()) => sync_parent(path).map_err(|cause| failed("remove", path, cause)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(failed("remove", path, cause)),
    }
}

/// Removes a file; an absent one is fine.
pub(super) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path).map_err(|cause| failed("remove", path, cause)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(failed("remove", path, cause)),
    }
}

/// The names in a folder; none when it isn't there.
pub(super) fn names(path: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(failed("read", path, cause)),
    };
    entries
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()
        .map_err(|cause| failed("read", path, cause))
}

/// How many bytes the files under a folder hold. Best effort: files that vanish meanwhile count 0.
pub(super) fn bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes(&entry.path()),
        Ok(meta) => occupied(&meta),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// The engine preallocates sparse files: what counts is what they occupy.
#[cfg(unix)]
fn occupied(meta: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    meta.blocks() * 512
}

#[cfg(not(unix))]
fn occupied(meta: &fs::Metadata) -> u64 {
    meta.len()
}

pub(super) fn failed(what: &str, path: &Path, cause: io::Error) -> Error {
    Error::dependency(format!("cannot {what} {}", path.display()), cause)
}
