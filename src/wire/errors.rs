//! Errors as bodies.

use super::v1;
use crate::error::Error;

/// The body of an error reply.
pub fn error_response(error: &Error, request_id: &str) -> v1::ErrorResponse {
    v1::ErrorResponse {
        code: error.kind().code().into(),
        kind: error.kind().name().to_owned(),
        message: error.message().to_owned(),
        stage: error.stage().unwrap_or_default().to_owned(),
        field: error.field().unwrap_or_default().to_owned(),
        request_id: request_id.to_owned(),
        retry_after_ms: error.retry_wait().map_or(0, |wait| {
            u32::try_from(wait.as_millis()).unwrap_or(u32::MAX)
        }),
    }
}
