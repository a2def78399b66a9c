//! Events of tracked retrievals to and from the wire, without loss.
//!
//! What a newer worker adds must not stop an older tracker: unknown fields are passed over, and so are stages, and dropped chunks
//! with a fate, a score or a grade, that it doesn't know.

use std::time::Duration;

use prost::Message;

use super::tracked_values::{
    chunk_of, model_quality, models, outcome_of, queries_of, tracked_chunk, tracked_query,
};
use super::v1::{self, retrieval_recorded as event};
use super::{models_of, reply};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    CorpusName, CorpusRef, RetrievalId, RetrievalRecord, StageName, StageReport, TenantId,
    Timestamp, TrackedEnd, TrackedQuery,
};

/// The event of a record.
pub fn retrieval_recorded(record: &RetrievalRecord) -> v1::RetrievalRecorded {
    v1::RetrievalRecorded {
        retrieval_id: record.id.to_string(),
        tenant: record.tenant().as_str().to_owned(),
        corpus: record.corpus.corpus.as_str().to_owned(),
        asked_at_us: record.at.as_micros(),
        request_id: record.request_id.clone(),
        worker: record.worker.clone(),
        actor: record.actor.clone(),
        purpose: record.purpose.clone(),
        query: Some(match &record.query {
            TrackedQuery::Text(text) => event::Query::QueryText(text.clone()),
            TrackedQuery::Hash(hash) => event::Query::QueryHash(hash.clone()),
        }),
        queries: record.queries.iter().map(tracked_query).collect(),
        limit: record.limit,
        options: record.options.clone(),
        end: Some(match record.end {
            TrackedEnd::Answered(outcome) => event::End::Outcome(reply::outcome(outcome).into()),
            TrackedEnd::Failed(kind) => event::End::ErrorKind(kind.name().to_owned()),
        }),
        quality: Some(reply::quality(&record.quality)),
        stages: record.stages.iter().map(tracked_stage).collect(),
        degraded: names(&record.degraded),
        warnings: record.warnings.clone(),
        models: Some(models_of(&record.models)),
        calibration: record.calibration.clone(),
        duration_ns: nanos(record.duration),
        chunks: record.chunks.iter().map(tracked_chunk).collect(),
    }
}

/// The size of a record's event in bytes.
pub fn event_size(record: &RetrievalRecord) -> usize {
    retrieval_recorded(record).encoded_len()
}

/// The record of an event that came on `tenant`'s subject, with the stream's time.
///
/// # Errors
/// `Malformed` for what can't be read, `TenantInvalid` for an event that names another tenant.
pub fn record_of(tenant: &TenantId, at: Timestamp, body: &[u8]) -> Result<RetrievalRecord> {
    let event =
        v1::RetrievalRecorded::decode(body).map_err(|_| unreadable("a protobuf message"))?;
    if event.tenant != tenant.as_str() {
        let message = "the event names another tenant than its subject";
        return Err(Error::new(ErrorKind::TenantInvalid, message));
    }
    let corpus = CorpusName::new(&event.corpus).map_err(|_| unreadable("a corpus"))?;
    let id = RetrievalId::parse(&event.retrieval_id).ok_or_else(|| unreadable("an id"))?;
    Ok(RetrievalRecord {
        id,
        corpus: CorpusRef::new(tenant.clone(), corpus),
        at,
        request_id: event.request_id,
        worker: event.worker,
        actor: event.actor,
        purpose: event.purpose,
        query: match event.query {
            Some(event::Query::QueryText(text)) => TrackedQuery::Text(text),
            Some(event::Query::QueryHash(hash)) => TrackedQuery::Hash(hash),
            None => return Err(unreadable("a question")),
        },
        queries: queries_of(event.queries),
        limit: event.limit,
        options: event.options,
        end: end_of(event.end)?,
        quality: model_quality(event.quality.unwrap_or_default()),
        stages: event.stages.into_iter().filter_map(stage_of).collect(),
        degraded: (event.degraded.iter())
            .filter_map(|name| StageName::parse(name))
            .collect(),
        warnings: event.warnings,
        models: models(event.models.unwrap_or_default()),
        calibration: event.calibration,
        duration: Duration::from_nanos(event.duration_ns),
        chunks: event.chunks.into_iter().filter_map(chunk_of).collect(),
    })
}

fn end_of(end: Option<event::End>) -> Result<TrackedEnd> {
    match end {
        Some(event::End::Outcome(outcome)) => outcome_of(outcome)
            .map(TrackedEnd::Answered)
            .ok_or_else(|| unreadable("a known outcome")),
        Some(event::End::ErrorKind(kind)) => {
            let kind = ErrorKind::parse(&kind).unwrap_or(ErrorKind::Internal);
            Ok(TrackedEnd::Failed(kind))
        }
        None => Err(unreadable("an end")),
    }
}

fn tracked_stage(report: &StageReport) -> v1::TrackedStage {
    v1::TrackedStage {
        name: report.stage.name().to_owned(),
        duration_ns: nanos(report.duration),
        inputs: report.inputs,
        outputs: report.outputs,
        model_calls: report.model_calls,
    }
}

fn stage_of(stage: v1::TrackedStage) -> Option<StageReport> {
    Some(StageReport {
        stage: StageName::parse(&stage.name)?,
        duration: Duration::from_nanos(stage.duration_ns),
        inputs: stage.inputs,
        outputs: stage.outputs,
        model_calls: stage.model_calls,
    })
}

fn names(stages: &[StageName]) -> Vec<String> {
    stages.iter().map(|stage| stage.name().to_owned()).collect()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Says what is missing, and nothing of what is there.
fn unreadable(lacks: &str) -> Error {
    Error::new(
        ErrorKind::Malformed,
        format!("a tracking event is not, or has not, {lacks}"),
    )
}

#[cfg(test)]
mod tests;
