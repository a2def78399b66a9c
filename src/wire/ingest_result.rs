//! Results of ingest jobs to and from the wire.

use super::v1;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{IngestResult, IngestStatus, JobError};

/// Encodes a result.
pub fn ingest_result(result: &IngestResult) -> v1::IngestResult {
    use v1::ingest_result::Status;
    let status = match result.status {
        IngestStatus::Indexed => Status::Indexed,
        IngestStatus::MetadataUpdated => Status::MetadataUpdated,
        IngestStatus::Unchanged => Status::Unchanged,
        IngestStatus::Superseded => Status::Superseded,
        IngestStatus::Deleted => Status::Deleted,
        IngestStatus::Failed => Status::Failed,
    };
    v1::IngestResult {
        job_id: result.job_id.clone(),
        corpus: result.corpus.clone(),
        document_id: result.document_id.clone(),
        status: status.into(),
        sequence: result.sequence,
        chunks: result.chunks,
        chunks_deleted: result.chunks_deleted,
        truncated_tokens: result.truncated_tokens,
        warnings: result.warnings.clone(),
        error: result.error.as_ref().map(job_error),
        timings: result.timings.clone(),
        attempt: result.attempt,
    }
}

fn job_error(error: &JobError) -> v1::JobError {
    v1::JobError {
        kind: error.kind.clone(),
        message: error.message.clone(),
        stage: error.stage.clone(),
        field: error.field.clone(),
        retryable: error.retryable,
    }
}

/// Decodes a result, as the registry and the command line read it back.
///
/// # Errors
/// `Malformed` for a status this build doesn't know.
pub fn job_result(result: v1::IngestResult) -> Result<IngestResult> {
    use v1::ingest_result::Status;
    let status = match result.status() {
        Status::Indexed => IngestStatus::Indexed,
        Status::MetadataUpdated => IngestStatus::MetadataUpdated,
        Status::Unchanged => IngestStatus::Unchanged,
        Status::Superseded => IngestStatus::Superseded,
        Status::Deleted => IngestStatus::Deleted,
        Status::Failed => IngestStatus::Failed,
        Status::Unspecified => {
            return Err(Error::new(
                ErrorKind::Malformed,
                "a result without a known status",
            ));
        }
    };
    Ok(IngestResult {
        job_id: result.job_id,
        corpus: result.corpus,
        document_id: result.document_id,
        status,
        sequence: result.sequence,
        chunks: result.chunks,
        chunks_deleted: result.chunks_deleted,
        truncated_tokens: result.truncated_tokens,
        warnings: result.warnings,
        error: result.error.map(|e| JobError {
            kind: e.kind,
            message: e.message,
            stage: e.stage,
            field: e.field,
            retryable: e.retryable,
        }),
        timings: result.timings,
        attempt: result.attempt,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Encoding, decode, encode};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn result() -> impl Strategy<Value = IngestResult> {
        let statuses = [
            IngestStatus::Indexed,
            IngestStatus::MetadataUpdated,
            IngestStatus::Unchanged,
            IngestStatus::Superseded,
            IngestStatus::Deleted,
            IngestStatus::Failed,
        ];
        let error = (".{0,9}", ".{0,9}", ".{0,9}", ".{0,9}", any::<bool>()).prop_map(
            |(kind, message, stage, field, retryable)| JobError {
                kind,
                message,
                stage,
                field,
                retryable,
            },
        );
        (
            (
                ".{0,9}",
                ".{0,9}",
                ".{0,9}",
                prop::sample::select(statuses.to_vec()),
                any::<u64>(),
            ),
            (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()),
            (
                prop::collection::vec(".{0,9}", 0..3),
                prop::option::of(error),
            ),
            prop::collection::btree_map("[a-z]{1,5}", 0.0..1e9f64, 0..3),
        )
            .prop_map(
                |(
                    (job_id, corpus, document_id, status, sequence),
                    counts,
                    (warnings, error),
                    timings,
                )| IngestResult {
                    job_id,
                    corpus,
                    document_id,
                    status,
                    sequence,
                    chunks: counts.0,
                    chunks_deleted: counts.1,
                    truncated_tokens: counts.2,
                    warnings,
                    error,
                    timings: BTreeMap::from_iter(timings),
                    attempt: counts.3,
                },
            )
    }

    proptest! {
        #[test]
        fn a_result_survives_both_encodings(result in result()) {
            for encoding in [Encoding::Json, Encoding::Protobuf] {
                let body = encode(&ingest_result(&result), encoding);
                let back: v1::IngestResult = decode(&body, encoding).expect("decodes");
                prop_assert_eq!(job_result(back).expect("known"), result.clone());
            }
        }
    }
}
