//! Identifiers: tenant, corpus, document, job and request.
//!
//! Each is a newtype whose constructor checks the shape once, so that nothing behind it has to.
//! Must not know where an identifier came from.

use std::fmt;

use crate::error::{Error, Result};

const MAX_SLUG: usize = 63;
const MAX_DOCUMENT_ID: usize = 512;
const MAX_REQUEST_ID: usize = 64;

/// `^[a-z0-9][a-z0-9_-]{0,62}$`, the pattern of tenants and corpora.
pub fn is_slug(text: &str) -> bool {
    let alnum = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= MAX_SLUG
        && bytes.first().is_some_and(|b| alnum(*b))
        && bytes.iter().all(|b| alnum(*b) || matches!(b, b'_' | b'-'))
}

/// Who owns data. Only the transport, from a subject's token, or an explicit operator command
/// mints one (`tests/architecture.rs` holds that); every store and registry call takes one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId(String);

impl TenantId {
    /// Mints a tenant from a subject token or an operator's argument.
    ///
    /// # Errors
    /// `TenantInvalid` when the token doesn't match the pattern: wildcards, dots, upper case, blanks.
    pub fn mint(token: &str) -> Result<Self> {
        if is_slug(token) {
            Ok(Self(token.to_owned()))
        } else {
            Err(Error::tenant_invalid())
        }
    }

    /// A tenant as a registry stored it, for operator calls that walk over all tenants.
    ///
    /// # Errors
    /// `DependencyFailed` when it isn't one that was ever minted.
    pub fn stored(token: &str) -> Result<Self> {
        Self::mint(token).map_err(|e| Error::dependency("the registry holds a damaged tenant", e))
    }

    /// The token as it stands in subjects and payloads.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a set of documents of one tenant; same pattern as a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CorpusName(String);

impl CorpusName {
    /// Checks the pattern.
    ///
    /// # Errors
    /// `InvalidField` on `corpus`.
    pub fn new(name: &str) -> Result<Self> {
        if is_slug(name) {
            Ok(Self(name.to_owned()))
        } else {
            Err(Error::invalid_field(
                "corpus",
                "must match ^[a-z0-9][a-z0-9_-]{0,62}$",
            ))
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CorpusName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One corpus of one tenant: the address of everything that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CorpusRef {
    /// The owner.
    pub tenant: TenantId,
    /// The corpus of that owner.
    pub corpus: CorpusName,
}

impl CorpusRef {
    /// Puts the two together.
    pub fn new(tenant: TenantId, corpus: CorpusName) -> Self {
        Self { tenant, corpus }
    }
}

/// What a caller puts and deletes: UTF-8, 1–512 bytes, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentId(String);

impl DocumentId {
    /// Checks length and characters.
    ///
    /// # Errors
    /// `InvalidField` on `documentId`.
    pub fn new(id: &str) -> Result<Self> {
        let problem = if id.is_empty() {
            "must not be empty"
        } else if id.len() > MAX_DOCUMENT_ID {
            "must not be longer than 512 bytes"
        } else if id.chars().any(char::is_control) {
            "must not contain control characters"
        } else {
            return Ok(Self(id.to_owned()));
        };
        Err(Error::invalid_field("documentId", problem))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A caller's own name for a request: `^[A-Za-z0-9_-]{1,64}$`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// The id when it is well-formed; callers decide what a bad one means.
    pub fn parse(text: &str) -> Option<Self> {
        let ok = (1..=MAX_REQUEST_ID).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        ok.then(|| Self(text.to_owned()))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of one ingest job: the request id when there is a valid one, else `seq-<stream sequence>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobId(String);

impl JobId {
    /// Derives the id of a job from its optional request id and its stream sequence.
    pub fn derive(request: Option<&RequestId>, stream_sequence: u64) -> Self {
        match request {
            Some(id) => Self(id.as_str().to_owned()),
            None => Self(format!("seq-{stream_sequence}")),
        }
    }

    /// A job id as a caller names it in a catalog request; same characters as a request id.
    ///
    /// # Errors
    /// `InvalidField` on `jobId`.
    pub fn new(text: &str) -> Result<Self> {
        match RequestId::parse(text) {
            Some(id) => Ok(Self(id.0)),
            None => Err(Error::invalid_field(
                "jobId",
                "must match ^[A-Za-z0-9_-]{1,64}$",
            )),
        }
    }

    /// The id, one subject token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_one_lower_case_token() {
        for good in ["a", "t1", "a_b-c", &"x".repeat(63)] {
            assert!(TenantId::mint(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "*",
            ">",
            "A",
            "a.b",
            "-a",
            "_a",
            "ä",
            "a b",
            &"x".repeat(64),
        ] {
            assert!(TenantId::mint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn document_ids_have_no_control_characters_and_a_limit_in_bytes() {
        assert!(DocumentId::new("ä/ö.txt").is_ok());
        assert!(DocumentId::new(&"ä".repeat(256)).is_ok());
        for bad in ["", "a\nb", "\u{0}", "\u{85}", &"ä".repeat(257)] {
            assert!(DocumentId::new(bad).is_err());
        }
    }

    #[test]
    fn a_job_is_named_by_its_request_or_its_sequence() {
        let id = RequestId::parse("Abc_1-2").expect("well-formed");
        assert_eq!(JobId::derive(Some(&id), 7).as_str(), "Abc_1-2");
        assert_eq!(JobId::derive(None, 7).as_str(), "seq-7");
        assert!(RequestId::parse("a.b").is_none());
        assert!(RequestId::parse("").is_none());
    }
}
