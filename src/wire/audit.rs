//! Requests on `rag.admin.audit` and their replies: a tracked retrieval with everything that is kept of it.

use super::cursors::read_record_cursor;
use super::encoding::{Encoding, decode};
use super::reply::{grade, models_of, outcome, quality, query, score_kind, signals, stage};
use super::stats::{corpus, limit, window};
use super::stats_reply::asked;
use super::v1;
use crate::error::Result;
use crate::model::{
    ChunkFate, CorpusName, RecordPosition, RetrievalRecord, TimeWindow, TrackedChunk, TrackedEnd,
};

/// A validated request of an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditQuestion {
    /// The tenant's name, which only the transport makes a tenant of.
    pub tenant: String,
    /// The corpus; `None` = all.
    pub corpus: Option<CorpusName>,
    /// The window.
    pub window: TimeWindow,
    /// Records at most.
    pub size: u32,
    /// The last record of the page before.
    pub after: Option<RecordPosition>,
}

/// Decodes and validates an audit request.
///
/// # Errors
/// `Malformed` or `InvalidField`.
pub fn decode_audit(body: &[u8], encoding: Encoding) -> Result<AuditQuestion> {
    let request: v1::AuditRequest = decode(body, encoding)?;
    Ok(AuditQuestion {
        corpus: corpus(&request.corpus)?,
        window: window(request.since, request.until)?,
        size: limit("pageSize", request.page_size)?,
        after: read_record_cursor(&request.cursor)?,
        tenant: request.tenant,
    })
}

/// Encodes a record.
pub fn audit_record(record: &RetrievalRecord) -> v1::AuditRecord {
    let (outcome, error_kind) = match record.end {
        TrackedEnd::Answered(answered) => (outcome(answered), ""),
        TrackedEnd::Failed(kind) => (v1::outcome::Kind::Unspecified, kind.name()),
    };
    v1::AuditRecord {
        retrieval_id: record.id.to_string(),
        at: Some(record.at.into()),
        tenant: record.tenant().as_str().to_owned(),
        corpus: record.corpus.corpus.as_str().to_owned(),
        request_id: record.request_id.clone(),
        worker: record.worker.clone(),
        actor: record.actor.clone(),
        purpose: record.purpose.clone(),
        query: Some(asked(&record.query)),
        queries: record.queries.iter().map(query).collect(),
        limit: record.limit,
        options: record.options.clone(),
        outcome: outcome.into(),
        error_kind: error_kind.to_owned(),
        quality: Some(quality(&record.quality)),
        stages: record.stages.iter().map(stage).collect(),
        degraded: record
            .degraded
            .iter()
            .map(|s| s.name().to_owned())
            .collect(),
        warnings: record.warnings.clone(),
        models: Some(models_of(&record.models)),
        calibration: record.calibration.clone(),
        duration_ms: record.duration.as_secs_f64() * 1_000.0,
        chunks: record.chunks.iter().map(chunk).collect(),
    }
}

fn chunk(chunk: &TrackedChunk) -> v1::AuditChunk {
    let relevance = f64::from(chunk.relevance);
    v1::AuditChunk {
        chunk_id: chunk.chunk_id.to_string(),
        content_hash: chunk.content_hash.clone(),
        document_id: chunk.document_id.as_str().to_owned(),
        document_sequence: chunk.document_sequence,
        ordinal: chunk.ordinal,
        rank: chunk.rank,
        relevance_score: relevance.is_finite().then_some(relevance),
        score_kind: score_kind(chunk.score_kind).into(),
        grade: grade(chunk.grade).into(),
        signals: Some(signals(&chunk.signals)),
        fate: fate(chunk.fate).into(),
    }
}

fn fate(fate: ChunkFate) -> v1::audit_fate::Kind {
    use v1::audit_fate::Kind;
    match fate {
        ChunkFate::Returned => Kind::Returned,
        ChunkFate::Incorrect => Kind::DroppedIncorrect,
        ChunkFate::BelowMinRelevance => Kind::DroppedMinRelevance,
        ChunkFate::DocumentLimit => Kind::DroppedDocumentLimit,
        ChunkFate::Limit => Kind::DroppedLimit,
        ChunkFate::MessageSize => Kind::DroppedMessageSize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_are_named_as_rows_name_them() {
        for one in ChunkFate::ALL {
            assert_eq!(fate(*one).as_str_name(), one.name());
        }
    }

    #[test]
    fn an_audit_names_its_window_and_place() {
        let decoded = |json: &str| decode_audit(json.as_bytes(), Encoding::Json);
        let question = decoded(r#"{"tenant":"t1","since":"2024-01-01T00:00:00Z"}"#).expect("valid");
        assert_eq!((question.size, question.after), (100, None));
        assert!(question.window.since.is_some() && question.window.until.is_none());
        for (json, field) in [
            (r#"{"tenant":"t1","cursor":"zz"}"#, "cursor"),
            (r#"{"tenant":"t1","pageSize":0}"#, "pageSize"),
            (r#"{"tenant":"t1","corpus":"A"}"#, "corpus"),
        ] {
            assert_eq!(decoded(json).expect_err(json).field(), Some(field));
        }
    }
}
