//! The SHA-256 of a file, for adapters that receive files or keep them.
//!
//! Must not know what the files are.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Lower-case hexadecimal; reads the file in pieces, models are large.
pub(super) fn sha256_hex(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&piece[..read]);
    }
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_several_pieces_has_the_digest_of_its_bytes() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("f");
        std::fs::write(&path, "abc").expect("written");
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(&path).expect("read"), known);
        let long = vec![7; 200_000];
        std::fs::write(&path, &long).expect("written");
        assert_eq!(sha256_hex(&path).expect("read"), hex(&Sha256::digest(long)));
        assert!(sha256_hex(&dir.path().join("absent")).is_err());
    }
}
