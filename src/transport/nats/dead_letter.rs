//! Dead letters: the original body and headers with the reason and the stream they came from, in `rag.dlq.<tenant>`.

use async_nats::HeaderMap;
use bytes::Bytes;

use super::connect::Connection;
use super::headers::{Headers, ORIGIN_SEQUENCE};
use super::subjects;
use crate::error::{Error, Result};
use crate::ingest::sha256_hex;
use crate::model::TenantId;

/// How many bytes of original headers are kept: the server takes 64 KiB of headers, ours included.
const KEPT_HEADERS: usize = 16 * 1024;
/// How much of a body that doesn't fit is kept.
const KEPT: usize = 64 * 1024;

/// A job or an event that failed for good.
pub(super) struct DeadLetter<'a> {
    /// The stream it came from.
    pub stream: &'static str,
    pub tenant: Option<&'a TenantId>,
    pub headers: &'a Headers,
    pub body: &'a Bytes,
    pub error: &'a Error,
    pub attempts: u64,
    /// Its sequence there.
    pub sequence: u64,
    /// The sequence it had first.
    pub origin: u64,
}

/// Publishes the letter and waits until the stream has it; twice is harmless.
///
/// # Errors
/// `DependencyFailed`.
pub(super) async fn publish(connection: &Connection, letter: &DeadLetter<'_>) -> Result<()> {
    let subject = subjects::dead_letters(letter.tenant);
    let (headers, body) = message(letter, connection.max_payload());
    let publish = connection
        .jetstream
        .publish_with_headers(subject, headers, body);
    let failed = |e| Error::dependency("a dead letter could not be stored", e);
    publish.await.map_err(failed)?.await.map_err(failed)?;
    Ok(())
}

fn message(letter: &DeadLetter<'_>, max_payload: usize) -> (HeaderMap, Bytes) {
    let mut headers = originals(letter);
    headers.insert(
        "Nats-Msg-Id",
        format!("{}:{}", letter.stream, letter.sequence).as_str(),
    );
    headers.insert("Rag-Dead-Stream", letter.stream);
    headers.insert("Rag-Dead-Reason", letter.error.kind().name());
    headers.insert(
        "Rag-Dead-Message",
        one_line(letter.error.message()).as_str(),
    );
    headers.insert("Rag-Dead-Stage", letter.error.stage().unwrap_or_default());
    headers.insert(
        "Rag-Dead-Field",
        one_line(letter.error.field().unwrap_or_default()).as_str(),
    );
    headers.insert("Rag-Dead-Attempts", letter.attempts.to_string().as_str());
    headers.insert(ORIGIN_SEQUENCE, letter.origin.to_string().as_str());
    let size: usize = headers
        .iter()
        .flat_map(|(name, values)| {
            values
                .iter()
                .map(move |v| name.to_string().len() + v.as_str().len() + 4)
        })
        .sum();
    // A safety margin for the header block's own framing.
    if size + letter.body.len() + 64 <= max_payload {
        return (headers, letter.body.clone());
    }
    headers.insert("Rag-Dead-Body-Sha256", sha256_hex(letter.body).as_str());
    headers.insert(
        "Rag-Dead-Body-Bytes",
        letter.body.len().to_string().as_str(),
    );
    (headers, letter.body.slice(..letter.body.len().min(KEPT)))
}

/// The job's own headers. `Nats-` headers act on the server: a caller's are kept under another name.
fn originals(letter: &DeadLetter<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut left = KEPT_HEADERS;
    for (name, value) in letter.headers.entries() {
        let lower = name.to_ascii_lowercase();
        if lower.starts_with("rag-dead-") || lower == "rag-origin-sequence" {
            continue;
        }
        let kept = match lower.starts_with("nats-") {
            true => format!("Rag-Original-{name}"),
            false => name.clone(),
        };
        match left.checked_sub(kept.len() + value.len() + 4) {
            Some(rest) => {
                left = rest;
                headers.append(kept.as_str(), value.as_str());
            }
            None => {
                headers.insert("Rag-Dead-Headers-Truncated", "true");
            }
        }
    }
    headers
}

/// Header values are one line.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn letter_of<'a>(headers: &'a Headers, body: &'a Bytes, error: &'a Error) -> DeadLetter<'a> {
        DeadLetter {
            stream: "RAG_INGEST",
            tenant: None,
            headers,
            body,
            error,
            attempts: 1,
            sequence: 7,
            origin: 5,
        }
    }

    #[test]
    fn the_original_is_kept_and_server_headers_are_disarmed() {
        let mut map = HeaderMap::new();
        map.insert("Nats-Rollup", "all");
        map.insert("Rag-Request-Id", "abc");
        map.insert("Rag-Origin-Sequence", "1");
        let headers = Headers::of(Some(&map));
        let error = Error::new(ErrorKind::Malformed, "line\nbreak");
        let body = Bytes::from_static(b"body");
        let (headers, kept) = message(&letter_of(&headers, &body, &error), 1_000_000);
        let get = |name: &str| headers.get(name).map(|v| v.as_str().to_owned());
        assert_eq!(kept, body);
        assert_eq!(get("Nats-Rollup"), None);
        assert_eq!(get("Rag-Original-Nats-Rollup").as_deref(), Some("all"));
        assert_eq!(get("Rag-Request-Id").as_deref(), Some("abc"));
        assert_eq!(get("Rag-Origin-Sequence").as_deref(), Some("5"));
        assert_eq!(get("Rag-Dead-Message").as_deref(), Some("line break"));
    }

    #[test]
    fn headers_beyond_the_servers_limit_are_left_out_and_that_is_said() {
        let mut map = HeaderMap::new();
        map.insert("X-Large", "x".repeat(65_000).as_str());
        (0..3_000).for_each(|i| map.insert(format!("Nats-{i}").as_str(), "y"));
        map.insert("Rag-Request-Id", "abc");
        let headers = Headers::of(Some(&map));
        let error = Error::new(ErrorKind::TooLarge, "x");
        let body = Bytes::from_static(b"body");
        let (headers, _) = message(&letter_of(&headers, &body, &error), 1_000_000);
        let size: usize = headers
            .iter()
            .map(|(n, v)| {
                n.to_string().len() + v.iter().map(|v| v.as_str().len() + 4).sum::<usize>()
            })
            .sum();
        assert!(size < 20 * 1024, "{size}");
        assert!(headers.get("Rag-Dead-Headers-Truncated").is_some());
    }

    #[test]
    fn what_does_not_fit_leaves_a_hash_and_its_beginning() {
        let headers = Headers::default();
        let error = Error::new(ErrorKind::TooLarge, "x");
        let body = Bytes::from(vec![b'x'; 100_000]);
        let (headers, kept) = message(&letter_of(&headers, &body, &error), 90_000);
        assert_eq!(kept.len(), KEPT);
        assert!(
            headers
                .get("Rag-Dead-Body-Sha256")
                .is_some_and(|h| h.as_str().len() == 64)
        );
    }
}
