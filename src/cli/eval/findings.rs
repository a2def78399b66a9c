//! Everything an evaluation found, as JSON and as tables. The report with plots is drawn from the same.

use serde_json::{Map, Value, json};

use super::super::output;
use super::measured::Measured;
use crate::error::Result;
use crate::evaluation::{
    Comparison, Dropped, Estimate, Evaluated, Evaluation, RESAMPLES, SIGNIFICANCE, Scores, Verdict,
    percentile,
};

/// Something about the evaluation as a whole.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Fact {
    /// Its key in JSON.
    pub key: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// What it is.
    pub value: Value,
}

impl Fact {
    pub(super) fn new(key: &'static str, label: &'static str, value: impl Into<Value>) -> Self {
        Self {
            key,
            label,
            value: value.into(),
        }
    }
}

/// The findings.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Findings {
    /// About the whole.
    pub facts: Vec<Fact>,
    /// All figures of quality.
    pub evaluation: Evaluation,
    /// What the service was seen to do, in the order of the evaluation's configurations; empty for run files.
    pub measured: Vec<Measured>,
    /// Configurations that the service lacks a part for: name and reason.
    pub skipped: Vec<(String, String)>,
    /// What makes figures less than they seem.
    pub warnings: Vec<String>,
}

impl Findings {
    /// The measured side of a configuration.
    pub(in crate::cli) fn measured(&self, name: &str) -> Option<&Measured> {
        self.measured.iter().find(|m| m.configuration.name == name)
    }

    /// One object with every figure.
    pub(super) fn json(&self) -> Value {
        let evaluation = &self.evaluation;
        let mut all = Map::new();
        for fact in &self.facts {
            all.insert(fact.key.to_owned(), fact.value.clone());
        }
        let evaluated = evaluation
            .configurations
            .iter()
            .map(|c| self.configuration(c));
        let skipped = self
            .skipped
            .iter()
            .map(|(name, reason)| json!({ "name": name, "status": "SKIPPED", "reason": reason }));
        all.insert("queries".into(), evaluation.queries.len().into());
        all.insert("queriesWithoutRelevant".into(), evaluation.left_out.into());
        all.insert("relevantFrom".into(), evaluation.plan.relevant_from.into());
        all.insert("seed".into(), evaluation.plan.seed.into());
        all.insert("configurations".into(), evaluated.chain(skipped).collect());
        all.insert(
            "comparisons".into(),
            evaluation.comparisons.iter().map(comparison).collect(),
        );
        all.insert("warnings".into(), self.warnings.clone().into());
        all.insert("method".into(), method().into());
        Value::Object(all)
    }

    fn configuration(&self, evaluated: &Evaluated) -> Value {
        let metrics = self.evaluation.plan.metrics.iter().zip(&evaluated.means);
        let metrics: Map<String, Value> = metrics
            .map(|(metric, mean)| (metric.to_string(), estimate(mean)))
            .collect();
        let by_query = self.evaluation.primary().map(|(index, _)| {
            let values = evaluated.values[index]
                .iter()
                .map(|value| Value::from(*value));
            let queries = self.evaluation.queries.iter().cloned();
            queries.zip(values).collect::<Map<String, Value>>()
        });
        let mut value = json!({
            "name": evaluated.name, "status": "EVALUATED", "metrics": metrics, "byQuery": by_query,
        });
        if let Some(measured) = self.measured(&evaluated.name) {
            let stage = |stage: &super::measured::Stage| {
                json!({
                    "name": stage.name, "meanMs": stage.mean_ms(), "modelCalls": stage.model_calls,
                })
            };
            value["options"] = json!(measured.configuration.options);
            value["latencyMs"] =
                json!({ "p50": measured.latency(50.0), "p95": measured.latency(95.0) });
            value["stages"] = measured.stages.iter().map(stage).collect();
            value["degraded"] = json!(measured.degraded);
            value["truncated"] = json!(measured.truncated);
            value["scores"] = measured.scores.iter().map(scores).collect();
            value["filterWouldDrop"] = json!(measured.dropped.as_ref().map(dropped));
        }
        value
    }

    /// Tables and sentences.
    pub(super) fn print(&self) -> Result<()> {
        output::line(&self.table().to_string())?;
        for comparison in self.evaluation.verdicts() {
            output::line(&comparison.sentence())?;
        }
        for measured in &self.measured {
            if let Some(dropped) = &measured.dropped {
                output::line(&format!(
                    "{}: {}",
                    measured.configuration.name,
                    drop_sentence(dropped)
                ))?;
            }
        }
        for (name, reason) in &self.skipped {
            output::line(&format!("{name} was skipped: {reason}"))?;
        }
        for warning in &self.warnings {
            output::line(&format!("warning: {warning}"))?;
        }
        let evaluation = &self.evaluation;
        output::line(&format!(
            "{} queries, {} without a relevant document left out; {}",
            evaluation.queries.len(),
            evaluation.left_out,
            method()
        ))
    }

    fn table(&self) -> comfy_table::Table {
        let mut table = output::table([""; 0]);
        let metrics = self.evaluation.plan.metrics.iter().map(ToString::to_string);
        let latency = ["p50 ms", "p95 ms"].map(str::to_owned);
        let latency = latency.into_iter().filter(|_| !self.measured.is_empty());
        table.set_header(
            ["configuration".to_owned()]
                .into_iter()
                .chain(metrics)
                .chain(latency),
        );
        for evaluated in &self.evaluation.configurations {
            let mut row = vec![evaluated.name.clone()];
            for (index, mean) in evaluated.means.iter().enumerate() {
                row.push(match self.evaluation.primary() {
                    Some((primary, _)) if primary == index => {
                        format!("{:.3} ({:.3} to {:.3})", mean.mean, mean.low, mean.high)
                    }
                    _ => format!("{:.3}", mean.mean),
                });
            }
            if let Some(measured) = self.measured(&evaluated.name) {
                row.extend([50.0, 95.0].map(|percent| format!("{:.1}", measured.latency(percent))));
            }
            table.add_row(row);
        }
        table
    }
}

/// How intervals and tests were made.
pub(in crate::cli) fn method() -> String {
    format!(
        "intervals: 95 %, paired percentile bootstrap over queries; test: paired two-sided randomisation, corrected by Holm over \
         the comparisons of a measure, significant below {SIGNIFICANCE}; {RESAMPLES} resamples each"
    )
}

/// What filtering drops, for people.
pub(in crate::cli) fn drop_sentence(dropped: &Dropped) -> String {
    match (dropped.share(), dropped.document_share()) {
        (Some(chunks), Some(documents)) => format!(
            "FILTER drops {:.1} % of the relevant chunks that were graded ({} of {}), and {:.1} % of the relevant documents ({} of {})",
            chunks * 100.0,
            dropped.chunks_dropped,
            dropped.chunks,
            documents * 100.0,
            dropped.documents_dropped,
            dropped.documents
        ),
        _ => "no relevant chunk was graded, so what FILTER drops is unknown".to_owned(),
    }
}

fn estimate(estimate: &Estimate) -> Value {
    json!({ "mean": estimate.mean, "low": estimate.low, "high": estimate.high })
}

fn comparison(comparison: &Comparison) -> Value {
    let (wins, losses, ties) = comparison.wins_losses_ties();
    json!({
        "configuration": comparison.configuration, "baseline": comparison.baseline,
        "metric": comparison.metric.to_string(), "difference": estimate(&comparison.difference),
        "p": comparison.p, "pHolm": comparison.p_holm, "wins": wins, "losses": losses, "ties": ties,
        "verdict": match comparison.verdict() {
            Verdict::Helps => "HELPS",
            Verdict::Hurts => "HURTS",
            Verdict::NoDifference => "NO_SIGNIFICANT_DIFFERENCE",
        },
    })
}

fn scores(scores: &Scores) -> Value {
    let side = |values: &[f64]| match values {
        [] => json!({ "count": 0 }),
        values => json!({
            "count": values.len(), "p10": percentile(values, 10.0), "p50": percentile(values, 50.0),
            "p90": percentile(values, 90.0),
        }),
    };
    json!({ "kind": scores.kind, "relevant": side(&scores.relevant), "irrelevant": side(&scores.irrelevant) })
}

fn dropped(dropped: &Dropped) -> Value {
    json!({
        "relevantChunks": dropped.chunks, "droppedChunks": dropped.chunks_dropped, "share": dropped.share(),
        "relevantDocuments": dropped.documents, "droppedDocuments": dropped.documents_dropped,
        "documentShare": dropped.document_share(),
    })
}
