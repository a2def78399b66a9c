//! One call to the server: its time limit, its retries, and what a failure means. Nothing else retries or classifies.
//!
//! The server's texts may quote what was sent, so they are dropped here: an error names the call and the status only.
//! The client library sends a point call again by itself, once, on a broken connection; that happens inside the limit.
//! Must not know what a call is for.

use std::sync::Arc;
use std::time::Duration;

use qdrant_client::qdrant::{PointsOperationResponse, UpdateStatus};
use qdrant_client::{Qdrant, QdrantError};
use tokio::time::{Instant, sleep, timeout_at};

use super::config::QdrantConfig;
use crate::error::{Error, ErrorKind, Result};

const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// How much earlier than the client the server gives up.
const MARGIN: Duration = Duration::from_secs(1);

// gRPC's status numbers.
const CANCELLED: i32 = 1;
const UNKNOWN: i32 = 2;
const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const NOT_FOUND: i32 = 5;
const ALREADY_EXISTS: i32 = 6;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const ABORTED: i32 = 10;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The collection doesn't exist.
    Gone,
    /// The collection exists already.
    Exists,
    /// Too much at the moment; again after this time.
    Limited(Duration),
    /// A quota is used up.
    Exhausted,
    /// The key is not accepted.
    Forbidden(&'static str),
    /// The server will never accept this request.
    Refused(&'static str),
    /// May succeed when it is sent again.
    Passing(&'static str),
    /// No answer within the time limit: the outcome is unknown.
    Slow,
}

/// A call that failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed {
    what: &'static str,
    pub(super) failure: Failure,
}

/// The client and the limits of its calls.
#[derive(Clone)]
pub(super) struct Caller {
    client: Arc<Qdrant>,
    timeout: Duration,
}

impl Caller {
    /// Prepares the client. No connection is made before the first call.
    ///
    /// # Errors
    /// `InvalidField` for an unusable address, key or time limit.
    pub(super) fn new(config: &QdrantConfig) -> Result<Self> {
        if config.timeout <= MARGIN {
            return Err(Error::invalid_field("timeout", "must be at least 2 s"));
        }
        let key = config.api_key.as_deref().unwrap_or_default();
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            // Else the client would refuse every call, with the key in its text.
            return Err(Error::invalid_field("api_key", "is no printable ASCII"));
        }
        let client = Qdrant::from_url(&config.url)
            .api_key(config.api_key.as_ref())
            // Later than the limit here, which also ends the library's own second attempt.
            .timeout(config.timeout + MARGIN)
            .connect_timeout(config.timeout)
            // The check would block the thread and print.
            .skip_compatibility_check()
            .build()
            .map_err(|_| Error::invalid_field("url", "is no address"))?;
        Ok(Self {
            client: Arc::new(client),
            timeout: config.timeout,
        })
    }

    /// The time for one call with its retries.
    pub(super) fn limit(&self) -> Duration {
        self.timeout
    }

    /// The server's own limit for a call sent with this much time left, in whole seconds.
    pub(super) fn server_seconds(left: Duration) -> u64 {
        left.saturating_sub(MARGIN).as_secs().max(1)
    }

    /// Sends until it succeeds, fails for good, or the time is used up. `send` gets the server's time limit in seconds.
    pub(super) async fn call<T, F>(
        &self,
        what: &'static str,
        send: impl Fn(Arc<Qdrant>, u64) -> F,
    ) -> Result<T, Failed>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let deadline = Instant::now() + self.timeout;
        let mut pause = FIRST_PAUSE;
        let mut attempts = 1;
        loop {
            let seconds = Self::server_seconds(deadline - Instant::now());
            let sent = timeout_at(deadline, send(self.client.clone(), seconds)).await;
            let failure = match sent {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Slow,
            };
            let wait = match failure {
                Failure::Passing(_) => pause,
                Failure::Limited(wait) => wait,
                Failure::Gone
                | Failure::Exists
                | Failure::Exhausted
                | Failure::Forbidden(_)
                | Failure::Refused(_)
                | Failure::Slow => return Err(Failed { what, failure }),
            };
            if attempts == ATTEMPTS || Instant::now() + wait >= deadline {
                return Err(Failed { what, failure });
            }
            tracing::debug!(what, ?failure, attempts, "a store call is sent again");
            sleep(wait).await;
            attempts += 1;
            pause *= 2;
        }
    }
}

/// A write's answer: done only when the server says that it is applied.
pub(super) fn applied(response: PointsOperationResponse) -> Result<(), Failure> {
    let status = response.result.map(|result| result.status());
    match status {
        Some(UpdateStatus::Completed) => Ok(()),
        Some(UpdateStatus::WaitTimeout) => Err(Failure::Passing("WaitTimeout")),
        Some(UpdateStatus::Acknowledged) => Err(Failure::Passing("Acknowledged")),
        Some(UpdateStatus::ClockRejected) => Err(Failure::Passing("ClockRejected")),
        Some(UpdateStatus::UnknownUpdateStatus) | None => Err(Failure::Passing("no status")),
    }
}

/// `None` when the collection doesn't exist.
pub(super) fn absent<T>(result: Result<T, Failed>) -> Result<Option<T>, Failed> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(failed) if failed.failure == Failure::Gone => Ok(None),
        Err(failed) => Err(failed),
    }
}

impl From<QdrantError> for Failure {
    fn from(error: QdrantError) -> Self {
        match error {
            QdrantError::ResourceExhaustedError {
                retry_after_seconds,
                ..
            } => Failure::Limited(Duration::from_secs(retry_after_seconds)),
            QdrantError::ResponseError { status } => of_status(i32::from(status.code())),
            QdrantError::Io(_) => Failure::Passing("Io"),
            QdrantError::ConversionError(_)
            | QdrantError::InvalidUri(_)
            | QdrantError::NoSnapshotFound(_) => Failure::Refused("the client"),
        }
    }
}

fn of_status(code: i32) -> Failure {
    match code {
        NOT_FOUND => Failure::Gone,
        ALREADY_EXISTS => Failure::Exists,
        RESOURCE_EXHAUSTED => Failure::Exhausted,
        PERMISSION_DENIED => Failure::Forbidden("PermissionDenied"),
        UNAUTHENTICATED => Failure::Forbidden("Unauthenticated"),
        CANCELLED => Failure::Passing("Cancelled"),
        UNKNOWN => Failure::Passing("Unknown"),
        DEADLINE_EXCEEDED => Failure::Passing("DeadlineExceeded"),
        ABORTED => Failure::Passing("Aborted"),
        INTERNAL => Failure::Passing("Internal"),
        UNAVAILABLE => Failure::Passing("Unavailable"),
        INVALID_ARGUMENT => Failure::Refused("InvalidArgument"),
        _ => Failure::Refused("an unexpected status"),
    }
}

impl From<Failed> for Error {
    fn from(Failed { what, failure }: Failed) -> Self {
        let failed = || format!("the vector store failed in {what}");
        match failure {
            Failure::Gone => gone(),
            Failure::Limited(wait) => {
                Error::new(ErrorKind::Overloaded, "the vector store is busy").retry_after(wait)
            }
            Failure::Exhausted => {
                Error::new(ErrorKind::Overloaded, "the vector store has no room left")
            }
            Failure::Forbidden(status) => {
                Error::dependency("the vector store refuses the API key", status)
            }
            Failure::Refused(status) => Error::internal(failed()).caused_by(status),
            Failure::Exists => Error::internal(failed()).caused_by("AlreadyExists"),
            Failure::Passing(status) => Error::dependency(failed(), status),
            Failure::Slow => Error::dependency(failed(), "no answer within the time limit"),
        }
    }
}

/// What a placement is that doesn't live for its tenant.
pub(super) fn gone() -> Error {
    Error::new(ErrorKind::NotFound, "the corpus has no such generation")
}
