//! Whether a file's bytes are what the hub and the recipe state.
//!
//! A hub's etag is the SHA-256 of a large file, and git's SHA-1 of a small one; other etags say nothing of the bytes.
//! Must not know how the bytes came.

use std::path::Path;

use uuid::Uuid;

use super::client::Stated;
use super::recipe::RemoteFile;
use crate::adapters::file_digest::{hex, sha256_hex};
use crate::error::{Error, ErrorKind, Result};

/// Checks size and digests.
///
/// # Errors
/// `DependencyFailed` naming the file and both values.
pub(super) fn check(path: &Path, file: &RemoteFile, stated: &Stated) -> Result<()> {
    let unread = |e| Error::dependency(format!("{} can't be read back", file.name), e);
    let size = std::fs::metadata(path).map_err(unread)?.len();
    if size != stated.size {
        let what = format!("{size} bytes");
        return Err(differs(
            file,
            &what,
            "hub",
            &format!("{} bytes", stated.size),
        ));
    }
    let sha256 = sha256_hex(path).map_err(unread)?;
    if is_hex(&stated.etag, 64) && !stated.etag.eq_ignore_ascii_case(&sha256) {
        return Err(differs(
            file,
            &format!("sha256 {sha256}"),
            "hub",
            &stated.etag,
        ));
    }
    if is_hex(&stated.etag, 40) {
        let bytes = std::fs::read(path).map_err(unread)?;
        check_git(file, &bytes, &stated.etag)?;
    }
    match &file.sha256 {
        Some(pinned) if *pinned != sha256 => Err(differs(
            file,
            &format!("sha256 {sha256}"),
            "recipe or --sha256",
            pinned,
        )),
        _ => Ok(()),
    }
}

/// Compares with git's id of the content.
fn check_git(file: &RemoteFile, bytes: &[u8], etag: &str) -> Result<()> {
    let (Some(actual), Some(expected)) = (git_id(bytes), masked(etag)) else {
        return Ok(());
    };
    if actual == expected {
        return Ok(());
    }
    // The first six bytes are the digest's own.
    let shown = &hex(actual.as_bytes())[..12];
    Err(differs(file, &format!("git id {shown}…"), "hub", etag))
}

/// SHA-1 of `blob LENGTH\0CONTENT`, as far as a UUID of version 5 keeps it: 122 of its first 128 bits. Enough to notice
/// damage; against a hub that means harm, only a checksum from elsewhere helps.
fn git_id(bytes: &[u8]) -> Option<Uuid> {
    let mut blob = format!("blob {}\0", bytes.len()).into_bytes();
    blob.extend_from_slice(bytes);
    // That UUID is the SHA-1 of a namespace of 16 bytes with a name behind it.
    let (space, name) = blob.split_first_chunk::<16>()?;
    Some(Uuid::new_v5(&Uuid::from_bytes(*space), name))
}

/// A SHA-1 with the bits overwritten that such a UUID overwrites.
fn masked(sha1: &str) -> Option<Uuid> {
    let bits = u128::from_str_radix(sha1.get(..32)?, 16).ok()?;
    Some(uuid::Builder::from_sha1_bytes(bits.to_be_bytes()).into_uuid())
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn differs(file: &RemoteFile, actual: &str, who: &str, expected: &str) -> Error {
    let problem = format!(
        "{} came damaged or altered: it has {actual}, the {who} states {expected}",
        file.name
    );
    Error::new(ErrorKind::DependencyFailed, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    // `printf 'hello world, hello git' | git hash-object --stdin` and `| sha256sum`.
    const TEXT: &str = "hello world, hello git";
    const GIT: &str = "0494a824b5110090a29d6f5ba3166ac10092a31f";
    const SHA256: &str = "2accd9f5accad3cbe1956779e31a955613dc12f9b89819098679621626759a69";

    fn checked(size: u64, etag: &str, pinned: Option<&str>) -> Result<()> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("f");
        std::fs::write(&path, TEXT).expect("written");
        let file = RemoteFile {
            path: "a/tokenizer.json".to_owned(),
            name: "tokenizer.json",
            sha256: pinned.map(str::to_owned),
        };
        let stated = Stated {
            size,
            etag: etag.to_owned(),
            commit: "c".to_owned(),
        };
        check(&path, &file, &stated)
    }

    #[test]
    fn what_is_stated_is_checked() {
        let size = TEXT.len() as u64;
        for etag in [SHA256, GIT, "some-other-etag"] {
            checked(size, etag, None).expect(etag);
            checked(size, etag, Some(SHA256)).expect(etag);
        }
    }

    #[test]
    fn each_difference_is_told_with_both_values() {
        let size = TEXT.len() as u64;
        let other = "0".repeat(64);
        let cases = [
            (size + 1, GIT, None, vec!["22 bytes", "23 bytes"]),
            (size, other.as_str(), None, vec![SHA256, other.as_str()]),
            (size, &other[..40], None, vec![&GIT[..12], &other[..40]]),
            (
                size,
                GIT,
                Some(other.as_str()),
                vec![SHA256, &other, "--sha256"],
            ),
        ];
        for (size, etag, pinned, parts) in cases {
            let error = checked(size, etag, pinned).expect_err("differs");
            assert_eq!(error.kind(), ErrorKind::DependencyFailed);
            for part in parts.into_iter().chain(["tokenizer.json"]) {
                assert!(error.message().contains(part), "{}", error.message());
            }
        }
    }
}
