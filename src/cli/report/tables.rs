//! Tables of the report.

use maud::{Markup, html};

use super::super::eval::findings::Findings;
use crate::evaluation::{Estimate, Evaluation};

/// Every measure of every configuration; the best of a column is bold.
pub(super) fn figures(findings: &Findings) -> Markup {
    let evaluation = &findings.evaluation;
    html! {
        table {
            thead { tr {
                th.text { "configuration" }
                @for metric in &evaluation.plan.metrics { th { (metric.to_string()) } }
            } }
            tbody { @for configuration in &evaluation.configurations { tr {
                td.text { (configuration.name) }
                @for (index, mean) in configuration.means.iter().enumerate() {
                    td.best[is_best(evaluation, index, mean)] {
                        (format!("{:.3}", mean.mean)) small { (format!("{:.3} – {:.3}", mean.low, mean.high)) }
                    }
                }
            } } }
        }
    }
}

fn is_best(evaluation: &Evaluation, index: usize, mean: &Estimate) -> bool {
    let all = evaluation
        .configurations
        .iter()
        .map(|c| c.means[index].mean);
    evaluation.plan.metrics[index].is_quality()
        && mean.mean > 0.0
        && all.fold(0.0_f64, f64::max) <= mean.mean
}

/// Every comparison by every measure.
pub(super) fn comparisons(findings: &Findings) -> Markup {
    html! {
        table {
            thead { tr {
                th.text { "configuration" } th.text { "beside" } th.text { "measure" } th { "difference" }
                th { "95 % interval" } th { "p" } th { "p (Holm)" } th { "won" } th { "lost" } th { "same" }
            } }
            tbody { @for comparison in &findings.evaluation.comparisons {
                @let (wins, losses, ties) = comparison.wins_losses_ties();
                @let difference = comparison.difference;
                tr {
                    td.text { (comparison.configuration) }
                    td.text { (comparison.baseline) }
                    td.text { (comparison.metric.to_string()) }
                    td { (format!("{:+.3}", difference.mean)) }
                    td { (format!("{:+.3} – {:+.3}", difference.low, difference.high)) }
                    td { (format!("{:.4}", comparison.p)) }
                    td { (format!("{:.4}", comparison.p_holm)) }
                    td { (wins) } td { (losses) } td { (ties) }
                }
            } }
        }
    }
}

/// Reply times, and where they went.
pub(super) fn times(findings: &Findings) -> Markup {
    html! {
        table {
            thead { tr {
                th.text { "configuration" } th { "p50 ms" } th { "p95 ms" }
                th.text { "stages: mean ms (model calls a query)" }
            } }
            tbody { @for measured in &findings.measured { tr {
                td.text { (measured.configuration.name) }
                td { (format!("{:.1}", measured.latency(50.0))) }
                td { (format!("{:.1}", measured.latency(95.0))) }
                td.text {
                    @for (index, stage) in measured.stages.iter().enumerate() {
                        @let calls = stage.model_calls as f64 / stage.durations.len().max(1) as f64;
                        @if index > 0 { ", " }
                        (stage.name) " " (format!("{:.1} ({calls:.1})", stage.mean_ms()))
                    }
                }
            } } }
        }
    }
}
