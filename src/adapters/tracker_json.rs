//! The parts of a tracked retrieval that are lists, as JSON text. Must not know the wire: stored text outlives it.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    LegSignal, ModelIds, Origin, QueryText, RetrievalRecord, Signals, StageName, StageReport,
};

#[derive(Serialize, Deserialize)]
struct StoredQuery {
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expanded_text: Option<String>,
    origin: String,
}

#[derive(Serialize, Deserialize)]
struct StoredStage {
    name: String,
    us: u64,
    inputs: u32,
    outputs: u32,
    model_calls: u32,
}

#[derive(Serialize, Deserialize)]
struct StoredModels {
    dense: String,
    sparse: String,
    cross_encoder: String,
    calibration: String,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct StoredSignals {
    #[serde(skip_serializing_if = "Option::is_none")]
    dense: Option<(f32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sparse: Option<(f32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bm25: Option<(f32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fused: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cross_encoder_logit: Option<f32>,
}

/// What is in a row, but not what was put there.
pub(super) fn damaged() -> Error {
    Error::new(
        ErrorKind::DependencyFailed,
        "the tracker holds a damaged row",
    )
}

fn written(value: &impl Serialize) -> String {
    // Structs of texts and numbers have no way to fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    // The cause would quote what it could not read.
    serde_json::from_str(text).map_err(|_| damaged())
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn queries_to_json(queries: &[QueryText]) -> String {
    let stored = queries.iter().map(|query| StoredQuery {
        text: query.text.clone(),
        expanded_text: query.expanded_text.clone(),
        origin: query.origin.name().to_owned(),
    });
    written(&stored.collect::<Vec<_>>())
}

pub(super) fn queries_from_json(text: &str) -> Result<Vec<QueryText>> {
    let stored: Vec<StoredQuery> = read(text)?;
    let query = |query: StoredQuery| {
        Ok(QueryText {
            origin: Origin::parse(&query.origin).ok_or_else(damaged)?,
            text: query.text,
            expanded_text: query.expanded_text,
        })
    };
    stored.into_iter().map(query).collect()
}

pub(super) fn stages_to_json(stages: &[StageReport]) -> String {
    let stored = stages.iter().map(|report| StoredStage {
        name: report.stage.name().to_owned(),
        us: micros(report.duration),
        inputs: report.inputs,
        outputs: report.outputs,
        model_calls: report.model_calls,
    });
    written(&stored.collect::<Vec<_>>())
}

pub(super) fn stages_from_json(text: &str) -> Result<Vec<StageReport>> {
    let stored: Vec<StoredStage> = read(text)?;
    let report = |stage: StoredStage| {
        Ok(StageReport {
            stage: StageName::parse(&stage.name).ok_or_else(damaged)?,
            duration: Duration::from_micros(stage.us),
            inputs: stage.inputs,
            outputs: stage.outputs,
            model_calls: stage.model_calls,
        })
    };
    stored.into_iter().map(report).collect()
}

pub(super) fn models_to_json(record: &RetrievalRecord) -> String {
    written(&StoredModels {
        dense: record.models.dense.clone(),
        sparse: record.models.sparse.clone(),
        cross_encoder: record.models.cross_encoder.clone(),
        calibration: record.calibration.clone(),
    })
}

/// The models' ids, and the calibration's.
pub(super) fn models_from_json(text: &str) -> Result<(ModelIds, String)> {
    let stored: StoredModels = read(text)?;
    let models = ModelIds {
        dense: stored.dense,
        sparse: stored.sparse,
        cross_encoder: stored.cross_encoder,
    };
    Ok((models, stored.calibration))
}

pub(super) fn texts_to_json(texts: &[impl Serialize]) -> String {
    written(&texts)
}

pub(super) fn texts_from_json(text: &str) -> Result<Vec<String>> {
    read(text)
}

/// Empty when there is none, as in most chunks.
pub(super) fn signals_to_json(signals: &Signals) -> String {
    if *signals == Signals::default() {
        return String::new();
    }
    let leg = |leg: Option<LegSignal>| leg.map(|s| (s.score, s.rank));
    written(&StoredSignals {
        dense: leg(signals.dense),
        sparse: leg(signals.sparse),
        bm25: leg(signals.bm25),
        fused: signals.fused,
        cross_encoder_logit: signals.cross_encoder_logit,
    })
}

pub(super) fn signals_from_json(text: &str) -> Result<Signals> {
    if text.is_empty() {
        return Ok(Signals::default());
    }
    let stored: StoredSignals = read(text)?;
    let leg = |leg: Option<(f32, u32)>| leg.map(|(score, rank)| LegSignal { score, rank });
    Ok(Signals {
        dense: leg(stored.dense),
        sparse: leg(stored.sparse),
        bm25: leg(stored.bm25),
        fused: stored.fused,
        cross_encoder_logit: stored.cross_encoder_logit,
    })
}
