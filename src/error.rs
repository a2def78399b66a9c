//! The one error of the library: a closed kind, a message without private text, and the cause.
//!
//! Layer 0. Must not know status headers, ack kinds or a library's own errors.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as the wire names it. Closed: every match on it is exhaustive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// Cannot be decoded.
    Malformed,
    /// The tenant token of the subject is invalid.
    TenantInvalid,
    /// What was asked for doesn't exist.
    NotFound,
    /// The stored collection was built with something else.
    SchemaConflict,
    /// Body or headers are too large.
    TooLarge,
    /// The encoding or schema version isn't supported.
    UnsupportedEncoding,
    /// A decoded field is not allowed.
    InvalidField,
    /// The tenant is over its limit.
    TenantLimit,
    /// A bug.
    Internal,
    /// The store, SQL or a model failed.
    DependencyFailed,
    /// Too much work.
    Overloaded,
    /// The worker is going away.
    Draining,
    /// A stage that the caller requires could not do its work.
    RequiredStageDegraded,
    /// The time budget is used up.
    Timeout,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::Malformed,
        Self::TenantInvalid,
        Self::NotFound,
        Self::SchemaConflict,
        Self::TooLarge,
        Self::UnsupportedEncoding,
        Self::InvalidField,
        Self::TenantLimit,
        Self::Internal,
        Self::DependencyFailed,
        Self::Overloaded,
        Self::Draining,
        Self::RequiredStageDegraded,
        Self::Timeout,
    ];

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Malformed => "malformed",
            ErrorKind::TenantInvalid => "tenant_invalid",
            ErrorKind::NotFound => "not_found",
            ErrorKind::SchemaConflict => "schema_conflict",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::UnsupportedEncoding => "unsupported_encoding",
            ErrorKind::InvalidField => "invalid_field",
            ErrorKind::TenantLimit => "tenant_limit",
            ErrorKind::Internal => "internal",
            ErrorKind::DependencyFailed => "dependency_failed",
            ErrorKind::Overloaded => "overloaded",
            ErrorKind::Draining => "draining",
            ErrorKind::RequiredStageDegraded => "required_stage_degraded",
            ErrorKind::Timeout => "timeout",
        }
    }

    /// The code on the wire.
    pub const fn code(self) -> u16 {
        match self {
            ErrorKind::Malformed => 400,
            ErrorKind::TenantInvalid => 403,
            ErrorKind::NotFound => 404,
            ErrorKind::SchemaConflict => 409,
            ErrorKind::TooLarge => 413,
            ErrorKind::UnsupportedEncoding => 415,
            ErrorKind::InvalidField => 422,
            ErrorKind::TenantLimit => 429,
            ErrorKind::Internal => 500,
            ErrorKind::DependencyFailed => 502,
            ErrorKind::Overloaded | ErrorKind::Draining | ErrorKind::RequiredStageDegraded => 503,
            ErrorKind::Timeout => 504,
        }
    }

    /// Whether sending the same again later can help.
    pub const fn is_retryable(self) -> bool {
        match self {
            ErrorKind::TenantLimit
            | ErrorKind::DependencyFailed
            | ErrorKind::Overloaded
            | ErrorKind::Draining
            | ErrorKind::RequiredStageDegraded
            | ErrorKind::Timeout => true,
            ErrorKind::Malformed
            | ErrorKind::TenantInvalid
            | ErrorKind::NotFound
            | ErrorKind::SchemaConflict
            | ErrorKind::TooLarge
            | ErrorKind::UnsupportedEncoding
            | ErrorKind::InvalidField
            | ErrorKind::Internal => false,
        }
    }
}

/// An error with its kind. Messages never carry query, document or metadata text.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    stage: Option<&'static str>,
    field: Option<String>,
    retry_after: Option<Duration>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of a kind, with what happened in lower case.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            stage: None,
            field: None,
            retry_after: None,
            source: None,
        }
    }

    /// A decoded field that is not allowed.
    pub fn invalid_field(field: impl Into<String>, problem: impl fmt::Display) -> Self {
        let field = field.into();
        let mut error = Self::new(ErrorKind::InvalidField, format!("{field} {problem}"));
        error.field = Some(field);
        error
    }

    /// A subject whose tenant token is invalid.
    pub fn tenant_invalid() -> Self {
        Self::new(
            ErrorKind::TenantInvalid,
            "the subject's tenant token must match ^[a-z0-9][a-z0-9_-]{0,62}$",
        )
    }

    /// A dependency that failed.
    pub fn dependency(
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::new(ErrorKind::DependencyFailed, message).caused_by(source)
    }

    /// A broken invariant.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The used-up time budget.
    pub fn timeout(stage: &'static str) -> Self {
        Self::new(ErrorKind::Timeout, "the time budget is used up").at_stage(stage)
    }

    /// Keeps the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Names the stage, unless an inner one did.
    #[must_use]
    pub fn at_stage(mut self, stage: &'static str) -> Self {
        self.stage.get_or_insert(stage);
        self
    }

    /// Says when a retry makes sense.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The stage it happened in.
    pub fn stage(&self) -> Option<&'static str> {
        self.stage
    }

    /// The invalid field.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// When a retry makes sense.
    pub fn retry_wait(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The message with its causes, for logs: causes of ours carry no private text either.
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut next = self.source();
        while let Some(cause) = next {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            next = cause.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}
