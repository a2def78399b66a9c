//! Headers of requests and jobs, matched without regard to case.

use async_nats::HeaderMap;

use crate::error::{Error, ErrorKind, Result};
use crate::model::RequestId;
use crate::telemetry::TraceHeaders;
use crate::wire::{Encoding, WIRE_SCHEMA};

/// Headers above this are refused.
pub(super) const MAX_HEADER_BYTES: usize = 16 * 1024;
const MAX_AUDIT_BYTES: usize = 128;

pub(super) const REQUEST_ID: &str = "Rag-Request-Id";
pub(super) const TIMEOUT: &str = "Rag-Timeout-Ms";
pub(super) const ORIGIN_SEQUENCE: &str = "Rag-Origin-Sequence";
pub(super) const WORKER: &str = "Rag-Worker";
pub(super) const CONTENT_TYPE: &str = "Content-Type";
pub(super) const ACTOR: &str = "Rag-Actor";
pub(super) const PURPOSE: &str = "Rag-Purpose";
const SCHEMA: &str = "Rag-Schema";

/// The headers of one message.
#[derive(Debug, Clone, Default)]
pub(super) struct Headers {
    entries: Vec<(String, String)>,
    bytes: usize,
}

impl Headers {
    pub(super) fn of(map: Option<&HeaderMap>) -> Self {
        let mut headers = Self::default();
        for (name, values) in map.into_iter().flat_map(HeaderMap::iter) {
            for value in values {
                let (name, value) = (name.to_string(), value.as_str().to_owned());
                headers.bytes += name.len() + value.len() + 4;
                headers.entries.push((name, value));
            }
        }
        headers
    }

    /// The first value of a header.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .entries
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn entries(&self) -> &[(String, String)] {
        &self.entries
    }

    /// The body's encoding; also checks the schema version.
    ///
    /// # Errors
    /// `UnsupportedEncoding`.
    pub(super) fn encoding(&self) -> Result<Encoding> {
        let encoding = Encoding::of(self.get(CONTENT_TYPE))?;
        match self.get(SCHEMA).map(str::parse::<u32>) {
            None => Ok(encoding),
            Some(Ok(version)) if version <= WIRE_SCHEMA => Ok(encoding),
            Some(_) => Err(Error::new(
                ErrorKind::UnsupportedEncoding,
                format!("Rag-Schema must be a number up to {WIRE_SCHEMA}"),
            )),
        }
    }

    /// Checks the sizes of headers and body.
    ///
    /// # Errors
    /// `TooLarge`.
    pub(super) fn check_size(&self, body: usize, max_body: usize) -> Result<()> {
        if self.bytes > MAX_HEADER_BYTES {
            return Err(Error::new(
                ErrorKind::TooLarge,
                "the headers are larger than 16 KiB",
            ));
        }
        if body > max_body {
            let message = format!("the body is larger than {max_body} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(())
    }

    /// The caller's request id, when it is well-formed.
    pub(super) fn request_id(&self) -> Option<RequestId> {
        self.get(REQUEST_ID).and_then(RequestId::parse)
    }

    /// The time budget in milliseconds that the caller asks for.
    ///
    /// # Errors
    /// `InvalidField` when it is no integer of at least 1.
    pub(super) fn timeout_ms(&self) -> Result<Option<u64>> {
        match self.get(TIMEOUT).map(parse_count) {
            None => Ok(None),
            Some(Some(ms)) if ms >= 1 => Ok(Some(ms)),
            Some(_) => Err(Error::invalid_field(
                TIMEOUT,
                "must be an integer of at least 1",
            )),
        }
    }

    /// Checks what is recorded for audit.
    ///
    /// # Errors
    /// `InvalidField` when actor or purpose is too long.
    pub(super) fn check_audit(&self) -> Result<()> {
        for name in [ACTOR, PURPOSE] {
            if self
                .get(name)
                .is_some_and(|value| value.len() > MAX_AUDIT_BYTES)
            {
                return Err(Error::invalid_field(
                    name,
                    "must not be longer than 128 bytes",
                ));
            }
        }
        Ok(())
    }

    /// A header that is recorded for audit; empty when it is absent, or too long to be recorded.
    pub(super) fn audit(&self, name: &str) -> &str {
        let told = self.get(name).unwrap_or_default();
        if told.len() > MAX_AUDIT_BYTES {
            ""
        } else {
            told
        }
    }

    /// The sequence that a replayed job had first. A header that is no number gains nothing, nor does a high one.
    pub(super) fn origin_sequence(&self) -> Option<u64> {
        self.get(ORIGIN_SEQUENCE)
            .and_then(parse_count)
            .filter(|s| *s >= 1)
    }

    pub(super) fn trace(&self) -> TraceHeaders {
        TraceHeaders::new(self.get("traceparent"), self.get("tracestate"))
    }
}

/// Digits only; a number that doesn't fit is as large as can be.
fn parse_count(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Adds the current span's trace context to what the worker publishes.
pub(super) fn insert_trace(map: &mut HeaderMap) {
    for (name, value) in crate::telemetry::current_headers().iter() {
        map.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, *value);
        }
        Headers::of(Some(&map))
    }

    #[test]
    fn names_are_matched_without_regard_to_case() {
        let headers = headers(&[
            ("rag-request-id", "abc"),
            ("CONTENT-TYPE", "application/json"),
        ]);
        assert_eq!(
            headers
                .request_id()
                .map(|id| id.as_str().to_owned())
                .as_deref(),
            Some("abc")
        );
        assert_eq!(headers.encoding().expect("known"), Encoding::Json);
    }

    #[test]
    fn a_timeout_is_a_whole_number_from_one() {
        let timeout = |value: &str| headers(&[("Rag-Timeout-Ms", value)]).timeout_ms();
        assert_eq!(timeout("250").expect("valid"), Some(250));
        assert_eq!(
            timeout("99999999999999999999").expect("clamped later"),
            Some(u64::MAX)
        );
        for bad in ["0", "-1", "1.5", "soon", "", "1e3"] {
            assert_eq!(timeout(bad).expect_err(bad).field(), Some("Rag-Timeout-Ms"));
        }
    }

    #[test]
    fn a_newer_schema_is_415() {
        let kind = |v: &str| {
            headers(&[("Rag-Schema", v)])
                .encoding()
                .map_err(|e| e.kind())
        };
        assert!(kind("1").is_ok());
        assert_eq!(kind("2"), Err(ErrorKind::UnsupportedEncoding));
        assert_eq!(kind("x"), Err(ErrorKind::UnsupportedEncoding));
    }
}
