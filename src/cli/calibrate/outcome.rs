//! From graded answers to a calibration with its figures: split, fit, report. Pure but for the date.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::args_eval::CalibrateArgs;
use super::super::eval::asking::Answer;
use super::super::eval::dataset::Judged;
use super::super::output;
use super::manifest::Entry;
use super::replies::Pairs;
use crate::error::Result;
use crate::evaluation::{CalibrationPlan, HeldOut, JudgedPair, calibrate, held_out, split_queries};
use crate::ingest::sha256_hex;
use crate::model::Calibration;

/// A calibration and what is known about it.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// The model it belongs to.
    pub model: String,
    /// What is written.
    pub entry: Entry,
    /// On the queries that were kept apart; `None` when none of them has a judged pair.
    pub held_out: Option<HeldOut>,
    /// The same pairs with the values that hold without a calibration.
    pub uncalibrated: Option<HeldOut>,
    /// Queries kept apart.
    pub held_out_queries: usize,
    /// Returned documents nobody judged.
    pub unjudged: usize,
    /// What a reader should doubt.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// Calibrates on a part of the judged queries and grades the rest with the result.
    ///
    /// # Errors
    /// As [`calibrate`].
    pub(super) fn of(
        args: &CalibrateArgs,
        model: &str,
        judged: &Judged,
        answers: &[Answer],
    ) -> Result<Self> {
        let (teaching, kept) = split_queries(judged.ids(), args.split_share, args.judged.seed);
        let pairs = |queries: &[String]| pairs_of(queries, args, judged, answers);
        let (seen, rest) = (pairs(&teaching), pairs(&kept));
        let made = calibrate(&seen.judged, &plan(args))?;
        let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let mut warnings = made.warnings;
        warnings.extend(doubts(
            args,
            answers,
            seen.without_output + rest.without_output,
        ));
        let (corpus, pairs) = (&args.target.corpus, fingerprint(&seen.judged));
        let calibration = Calibration {
            id: format!("{corpus}-{today}-{pairs}"),
            ..made.calibration
        };
        Ok(Self {
            model: model.to_owned(),
            held_out: held_out(&rest.judged, &calibration),
            uncalibrated: held_out(&rest.judged, &Calibration::conservative()),
            held_out_queries: kept.len(),
            unjudged: seen.unjudged + rest.unjudged,
            warnings,
            entry: Entry {
                calibration,
                method: method(args, teaching.len(), judged.queries.len()),
                judged_queries: teaching.len(),
                positives: made.positives,
                negatives: made.negatives,
                made: today,
            },
        })
    }

    /// One object.
    pub(super) fn json(&self, dry_run: bool) -> Value {
        let (entry, calibration) = (&self.entry, &self.entry.calibration);
        json!({
            "model": self.model, "written": !dry_run, "id": calibration.id, "scale": calibration.scale,
            "shift": calibration.shift, "correct": calibration.correct, "incorrect": calibration.incorrect,
            "method": entry.method, "judgedQueries": entry.judged_queries, "positives": entry.positives,
            "negatives": entry.negatives, "made": entry.made, "unjudged": self.unjudged,
            "heldOutQueries": self.held_out_queries, "heldOut": self.held_out.as_ref().map(figures),
            "heldOutUncalibrated": self.uncalibrated.as_ref().map(figures), "warnings": self.warnings,
        })
    }

    /// A table and what to do next.
    pub(super) fn print(&self, dry_run: bool) -> Result<()> {
        let (entry, calibration) = (&self.entry, &self.entry.calibration);
        output::line(&format!(
            "{}: p = 1/(1 + e^-({} * logit + {})), CORRECT from {}, INCORRECT up to {}",
            self.model,
            calibration.scale,
            calibration.shift,
            calibration.correct,
            calibration.incorrect
        ))?;
        output::line(&format!(
            "from {} relevant and {} irrelevant pairs of {} queries; {} returned documents are unjudged and taught nothing",
            entry.positives, entry.negatives, entry.judged_queries, self.unjudged
        ))?;
        let mut table = output::table(["held out", "calibrated", "without"]);
        if let (Some(own), Some(without)) = (&self.held_out, &self.uncalibrated) {
            for (row, without) in rows(own).into_iter().zip(rows(without)) {
                table.add_row([row.0.to_owned(), row.1, without.1]);
            }
            output::line(&table.to_string())?;
        } else {
            output::line(
                "no query that was kept apart has a judged pair: how good this is, is unknown",
            )?;
        }
        for warning in &self.warnings {
            output::line(&format!("warning: {warning}"))?;
        }
        output::line(&if dry_run {
            "nothing was written (--dry-run)".to_owned()
        } else {
            format!(
                "written as {}; workers use it after a restart",
                calibration.id
            )
        })
    }
}

fn pairs_of(
    queries: &[String],
    args: &CalibrateArgs,
    judged: &Judged,
    answers: &[Answer],
) -> Pairs {
    let queries: BTreeSet<&String> = queries.iter().collect();
    let mut pairs = Pairs::default();
    for answer in answers
        .iter()
        .filter(|answer| queries.contains(&answer.query))
    {
        pairs.add(
            &answer.query,
            &answer.response,
            &judged.judgements,
            args.judged.relevant_from,
        );
    }
    pairs
}

fn plan(args: &CalibrateArgs) -> CalibrationPlan {
    CalibrationPlan {
        precision: args.precision,
        miss_rate: args.miss_rate,
        minimum: args.min_pairs,
        prevalence: args.prevalence,
    }
}

fn doubts(args: &CalibrateArgs, answers: &[Answer], without_output: usize) -> Vec<String> {
    let mut doubts = Vec::new();
    let degraded = answers
        .iter()
        .filter(|answer| !answer.response.degraded.is_empty())
        .count();
    if degraded > 0 {
        let all = answers.len();
        doubts.push(format!(
            "{degraded} of {all} answers were degraded: pairs are missing"
        ));
    }
    if without_output > 0 {
        doubts.push(format!(
            "{without_output} judged documents came back without a model output"
        ));
    }
    if let Some(prevalence) = args.prevalence {
        doubts.push(format!(
            "held-out figures are those of the judged pairs, whose share of relevant ones isn't the {prevalence} asked for"
        ));
    }
    doubts
}

/// Eight hexadecimal digits of the pairs: the same pairs, the same name.
fn fingerprint(pairs: &[JudgedPair]) -> String {
    let line = |p: &JudgedPair| {
        format!(
            "{:?}\n",
            (&p.query, &p.document, p.logit.to_bits(), p.relevant)
        )
    };
    let all: String = pairs.iter().map(line).collect();
    sha256_hex(all.as_bytes())[..8].to_owned()
}

fn method(args: &CalibrateArgs, queries: usize, of: usize) -> String {
    let prevalence = args
        .prevalence
        .map_or("the judged share of relevant pairs".to_owned(), |p| {
            format!("a share of relevant pairs of {p}")
        });
    let data = args
        .folder
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    format!(
        "Platt scaling of the best chunk of each judged document ({queries} of {of} judged queries of {data}, seed {}), for {prevalence}; \
         CORRECT where the precision is at least {} (lower bound, one-sided 90 % Wilson), INCORRECT where at most {} of the \
         relevant pairs are",
        args.judged.seed, args.precision, args.miss_rate
    )
}

fn figures(held: &HeldOut) -> Value {
    json!({
        "positives": held.positives, "negatives": held.negatives, "correct": held.correct,
        "incorrect": held.incorrect, "precision": held.precision, "missRate": held.miss_rate,
        "brier": held.brier, "calibrationError": held.calibration_error,
    })
}

fn rows(held: &HeldOut) -> Vec<(&'static str, String)> {
    let share = |share: Option<f64>| share.map_or("unknown".to_owned(), |s| format!("{s:.3}"));
    vec![
        ("relevant pairs", held.positives.to_string()),
        ("irrelevant pairs", held.negatives.to_string()),
        ("CORRECT", held.correct.to_string()),
        ("INCORRECT", held.incorrect.to_string()),
        ("precision of CORRECT", share(held.precision)),
        ("relevant pairs that are INCORRECT", share(held.miss_rate)),
        ("Brier score", format!("{:.4}", held.brier)),
        (
            "calibration error",
            format!("{:.4}", held.calibration_error),
        ),
    ]
}
