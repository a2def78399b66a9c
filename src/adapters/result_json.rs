//! Ingest results as JSON text, for the registries. Must not know the wire: stored text outlives it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{IngestResult, IngestStatus, JobError};

#[derive(Serialize, Deserialize)]
struct StoredResult {
    job_id: String,
    corpus: String,
    document_id: String,
    status: String,
    sequence: u64,
    chunks: u32,
    chunks_deleted: u32,
    truncated_tokens: u32,
    warnings: Vec<String>,
    error: Option<StoredError>,
    timings: BTreeMap<String, f64>,
    attempt: u32,
}

#[derive(Serialize, Deserialize)]
struct StoredError {
    kind: String,
    message: String,
    stage: String,
    field: String,
    retryable: bool,
}

const STATUSES: [(IngestStatus, &str); 6] = [
    (IngestStatus::Indexed, "indexed"),
    (IngestStatus::MetadataUpdated, "metadata_updated"),
    (IngestStatus::Unchanged, "unchanged"),
    (IngestStatus::Superseded, "superseded"),
    (IngestStatus::Deleted, "deleted"),
    (IngestStatus::Failed, "failed"),
];

fn status_name(status: IngestStatus) -> &'static str {
    STATUSES
        .iter()
        .find(|(s, _)| *s == status)
        .map_or("", |(_, name)| name)
}

/// Writes a result.
pub(super) fn to_json(result: &IngestResult) -> String {
    let stored = StoredResult {
        job_id: result.job_id.clone(),
        corpus: result.corpus.clone(),
        document_id: result.document_id.clone(),
        status: status_name(result.status).to_owned(),
        sequence: result.sequence,
        chunks: result.chunks,
        chunks_deleted: result.chunks_deleted,
        truncated_tokens: result.truncated_tokens,
        warnings: result.warnings.clone(),
        error: result.error.as_ref().map(|e| StoredError {
            kind: e.kind.clone(),
            message: e.message.clone(),
            stage: e.stage.clone(),
            field: e.field.clone(),
            retryable: e.retryable,
        }),
        timings: result.timings.clone(),
        attempt: result.attempt,
    };
    // A struct of strings and numbers has no way to fail.
    serde_json::to_string(&stored).unwrap_or_default()
}

/// Reads a result back.
///
/// # Errors
/// `DependencyFailed` when the text is none that [`to_json`] wrote.
pub(super) fn from_json(text: &str) -> Result<IngestResult> {
    let damaged = || {
        Error::new(
            ErrorKind::DependencyFailed,
            "the registry holds a damaged result",
        )
    };
    let stored: StoredResult = serde_json::from_str(text).map_err(|e| damaged().caused_by(e))?;
    let status = STATUSES.iter().find(|(_, name)| *name == stored.status);
    let status = status.map(|(status, _)| *status).ok_or_else(damaged)?;
    Ok(IngestResult {
        job_id: stored.job_id,
        corpus: stored.corpus,
        document_id: stored.document_id,
        status,
        sequence: stored.sequence,
        chunks: stored.chunks,
        chunks_deleted: stored.chunks_deleted,
        truncated_tokens: stored.truncated_tokens,
        warnings: stored.warnings,
        error: stored.error.map(|e| JobError {
            kind: e.kind,
            message: e.message,
            stage: e.stage,
            field: e.field,
            retryable: e.retryable,
        }),
        timings: stored.timings,
        attempt: stored.attempt,
    })
}
