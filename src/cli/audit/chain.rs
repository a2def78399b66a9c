//! The hash chain of an exported file: sealing lines, and finding the first one that is not as it was written.
//!
//! A line is a JSON object whose last two members are `previousHash` and `hash`; `hash` is the SHA-256 of the line's bytes as
//! they stand, without that member. Pure: must not know files, nor where retrievals come from.

use std::io::BufRead;

use serde::Deserialize;

use crate::ingest::sha256_hex;
use crate::wire::WireTimestamp;

/// What the first line calls itself.
pub(super) const FORMAT: &str = "ragbus-audit";
/// The version of the layout.
pub(super) const VERSION: u32 = 1;
/// What the first line follows.
pub(super) const START: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const HASH_MEMBER: &str = ",\"hash\":\"";
const HASH_LENGTH: usize = 64;

/// Lines that follow each other.
#[derive(Debug)]
pub(super) struct Chain {
    previous: String,
}

impl Chain {
    /// A chain without a line.
    pub(super) fn new() -> Self {
        Self {
            previous: START.to_owned(),
        }
    }

    /// The hash of the last line.
    pub(super) fn last(&self) -> &str {
        &self.previous
    }

    /// The next line, with its end. `members` are the members of a JSON object, without braces, at least one.
    pub(super) fn seal(&mut self, kind: &str, members: &str) -> String {
        let previous = &self.previous;
        let open = format!("{{\"kind\":\"{kind}\",{members},\"previousHash\":\"{previous}\"");
        let hash = sha256_hex(format!("{open}}}").as_bytes());
        let line = format!("{open}{HASH_MEMBER}{hash}\"}}\n");
        self.previous = hash;
        line
    }
}

/// What a sound file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verified {
    pub(super) tenant: String,
    /// Empty = all.
    pub(super) corpus: String,
    pub(super) since: String,
    pub(super) until: String,
    /// Whether the window was over when it was exported.
    pub(super) closed: bool,
    pub(super) count: u64,
    pub(super) last_hash: String,
}

/// The first bad line, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: u64,
    pub(super) problem: &'static str,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Line {
    #[serde(rename_all = "camelCase")]
    Header {
        format: String,
        version: u32,
        tenant: String,
        corpus: String,
        since: String,
        until: String,
        window_closed: bool,
        previous_hash: String,
    },
    #[serde(rename_all = "camelCase")]
    Retrieval {
        tenant: String,
        corpus: String,
        at: String,
        retrieval_id: String,
        previous_hash: String,
    },
    #[serde(rename_all = "camelCase")]
    End {
        count: u64,
        last_hash: String,
        previous_hash: String,
    },
}

impl Line {
    fn previous(&self) -> &str {
        match self {
            Line::Header { previous_hash, .. }
            | Line::Retrieval { previous_hash, .. }
            | Line::End { previous_hash, .. } => previous_hash,
        }
    }
}

/// Where the reading of a file stands.
struct Reader {
    previous: String,
    header: Option<Verified>,
    place: Option<(i64, String)>,
    count: u64,
    ended: bool,
}

/// Reads a file from its first line to its last.
///
/// # Errors
/// The first line that is not as it was written, or that is missing.
pub(super) fn verify(mut file: impl BufRead) -> Result<Verified, Fault> {
    let mut reader = Reader {
        previous: START.to_owned(),
        header: None,
        place: None,
        count: 0,
        ended: false,
    };
    let mut bytes = Vec::new();
    for line in 1.. {
        let fault = |problem| Fault { line, problem };
        bytes.clear();
        let read = file.read_until(b'\n', &mut bytes);
        if read.map_err(|_| fault("can't be read"))? == 0 {
            let header = reader.header.filter(|_| reader.ended);
            return header.ok_or(fault("is missing: the file was cut off"));
        }
        reader.take(&bytes).map_err(fault)?;
    }
    Err(Fault {
        line: u64::MAX,
        problem: "is one too many",
    })
}

impl Reader {
    fn take(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        if self.ended {
            return Err("follows the closing line");
        }
        let text = bytes.strip_suffix(b"\n").ok_or("is cut off")?;
        let hash = sound(text)?;
        let line: Line = serde_json::from_slice(text).map_err(|_| "is no line of an export")?;
        if line.previous() != self.previous {
            return Err("doesn't follow the line before: one was removed, added or moved");
        }
        self.follow(line)?;
        self.previous = hash;
        if let Some(header) = &mut self.header {
            header.last_hash.clone_from(&self.previous);
            header.count = self.count;
        }
        Ok(())
    }

    fn follow(&mut self, line: Line) -> Result<(), &'static str> {
        match (line, self.header.take()) {
            (line @ Line::Header { .. }, None) => self.header = Some(header(line)?),
            (_, None) => return Err("is not the first line of an export"),
            (Line::Header { .. }, Some(_)) => return Err("begins another export"),
            (line @ Line::Retrieval { .. }, Some(header)) => {
                self.place = Some(place(&line, &header, self.place.as_ref())?);
                self.count += 1;
                self.header = Some(header);
            }
            (
                Line::End {
                    count, last_hash, ..
                },
                Some(header),
            ) => {
                if count != self.count || last_hash != self.previous {
                    return Err("counts other lines than there are");
                }
                self.ended = true;
                self.header = Some(header);
            }
        }
        Ok(())
    }
}

/// The hash of a line that is what it says.
fn sound(line: &[u8]) -> Result<String, &'static str> {
    const NONE: &str = "doesn't end with its hash";
    let inner = line.strip_suffix(b"\"}").ok_or(NONE)?;
    let (open, hash) = inner
        .split_at_checked(inner.len().saturating_sub(HASH_LENGTH))
        .ok_or(NONE)?;
    let open = open.strip_suffix(HASH_MEMBER.as_bytes()).ok_or(NONE)?;
    let expected = sha256_hex(&[open, b"}"].concat());
    if hash != expected.as_bytes() {
        return Err("was changed: its hash is another");
    }
    Ok(expected)
}

fn header(line: Line) -> Result<Verified, &'static str> {
    match line {
        Line::Header {
            format,
            version: VERSION,
            tenant,
            corpus,
            since,
            until,
            window_closed,
            ..
        } if format == FORMAT => Ok(Verified {
            tenant,
            corpus,
            since,
            until,
            closed: window_closed,
            count: 0,
            last_hash: String::new(),
        }),
        _ => Err("is of another format or version"),
    }
}

/// Time and id, when the retrieval belongs here and comes behind the one before.
fn place(
    line: &Line,
    header: &Verified,
    before: Option<&(i64, String)>,
) -> Result<(i64, String), &'static str> {
    let Line::Retrieval {
        tenant,
        corpus,
        at,
        retrieval_id,
        ..
    } = line
    else {
        return Err("is no retrieval");
    };
    let micros = |text: &str| Some(WireTimestamp::parse(text)?.to_model()?.as_micros());
    let window = micros(&header.since).zip(micros(&header.until));
    let at = micros(at).zip(window).filter(|(at, (since, until))| {
        let own =
            *tenant == header.tenant && (header.corpus.is_empty() || *corpus == header.corpus);
        own && (since..until).contains(&at)
    });
    let (at, _) = at.ok_or("is not of the window that the first line names")?;
    let place = (at, retrieval_id.clone());
    if before.is_some_and(|before| *before >= place) {
        return Err("stands before the line before it");
    }
    Ok(place)
}

#[cfg(test)]
mod tests;
