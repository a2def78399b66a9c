//! What an evaluation computes: judgements and rankings in, measures, intervals, tests and calibrations out.
//!
//! Layer 2, pure: texts come in as strings, chance comes from a seed. Must not know files, the wire, or how results are shown.

mod beir;
mod calibrating;
mod dropped;
mod judgements;
mod logistic;
mod measures;
mod ranking;
mod resampling;
mod spread;
mod summary;
mod thresholds;
mod trec;

pub use beir::{Document, Question, document, question};
pub use calibrating::{
    Calibrated, CalibrationPlan, HeldOut, JudgedPair, calibrate, held_out, split_queries,
};
pub use dropped::Dropped;
pub use judgements::{Grades, Judgements};
pub use logistic::{Logistic, fit as fit_logistic};
pub use measures::Metric;
pub use ranking::{collapse, trec_order};
pub use resampling::{Estimate, RESAMPLES, holm, mean_interval, sign_flip_p};
pub use spread::{Scores, mean, percentile};
pub use summary::{
    Comparison, Evaluated, Evaluation, EvaluationPlan, Ranked, SIGNIFICANCE, Verdict, evaluate,
};
pub use thresholds::{Thresholds, choose as choose_thresholds, wilson_lower};
pub use trec::{Run, format_run, parse_run};
