//! The findings of an evaluation as one HTML page: nothing in it comes from elsewhere, and every text is escaped.
//!
//! Makes strings. Must not know files or the service.

mod plots;
mod tables;
mod usage;
mod usage_plots;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::eval::findings::{Findings, drop_sentence, method};
use crate::error::Result;
use crate::evaluation::{Comparison, Verdict};
pub(super) use usage::usage_page;

/// Queries named as the greatest wins and losses.
const EXTREMES: usize = 4;
const STYLE: &str = include_str!("style.css");

/// The page.
///
/// # Errors
/// `Internal` when a plot can't be drawn.
pub(super) fn page(findings: &Findings) -> Result<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Retrieval evaluation" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Retrieval evaluation" }
                (facts(findings))
                (notices(findings))
                h2 { "What the stages do" }
                (sentences(findings))
                h2 { "Figures" }
                (tables::figures(findings))
                (bars(findings)?)
                h2 { "Each beside its baseline" }
                (tables::comparisons(findings))
                (wins_and_losses(findings)?)
                (service(findings)?)
                p.method { (method()) "." }
            }
        }
    };
    Ok(page.into_string())
}

fn facts(findings: &Findings) -> Markup {
    let evaluation = &findings.evaluation;
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    html! {
        dl.facts {
            @for fact in &findings.facts {
                @let text = text(&fact.value);
                @if !text.is_empty() { div { dt { (fact.label) } dd { (text) } } }
            }
            div { dt { "queries" } dd { (evaluation.queries.len()) } }
            @if evaluation.left_out > 0 {
                div { dt { "left out, nothing relevant" } dd { (evaluation.left_out) } }
            }
            div { dt { "relevant from grade" } dd { (evaluation.plan.relevant_from) } }
        }
    }
}

fn notices(findings: &Findings) -> Markup {
    html! {
        @for warning in &findings.warnings { p.warning { (warning) } }
        @for (name, reason) in &findings.skipped { p.skipped { strong { (name) } " was skipped: " (reason) } }
    }
}

fn sentences(findings: &Findings) -> Markup {
    let badge = |comparison: &Comparison| match comparison.verdict() {
        Verdict::Helps => ("helps", "helps"),
        Verdict::Hurts => ("hurts", "hurts"),
        Verdict::NoDifference => ("same", "no difference"),
    };
    let drops = findings
        .measured
        .iter()
        .filter_map(|m| Some((&m.configuration.name, m.dropped?)));
    html! {
        ul.verdicts {
            @for comparison in findings.evaluation.verdicts() {
                @let (class, label) = badge(comparison);
                li { span class={ "badge " (class) } { (label) } span { (comparison.sentence()) } }
            }
            @for (name, dropped) in drops {
                li { span.badge.drop { "filter" } span { (name) ": " (drop_sentence(&dropped)) "." } }
            }
        }
    }
}

fn bars(findings: &Findings) -> Result<Markup> {
    let evaluation = &findings.evaluation;
    let Some((index, metric)) = evaluation.primary() else {
        return Ok(html! {});
    };
    let bars: Vec<_> = evaluation
        .configurations
        .iter()
        .map(|c| (c.name.as_str(), c.means[index]))
        .collect();
    let svg = plots::bars(&bars)?;
    Ok(html! {
        figure { (PreEscaped(svg)) figcaption { (metric.to_string()) " with its 95 % interval" } }
    })
}

fn wins_and_losses(findings: &Findings) -> Result<Markup> {
    let mut figures = Vec::new();
    for comparison in findings.evaluation.verdicts() {
        let (wins, losses, ties) = comparison.wins_losses_ties();
        let [won, lost] = comparison.extremes(&findings.evaluation.queries, EXTREMES);
        let svg = plots::deltas(&comparison.differences)?;
        figures.push(html! {
            figure {
                (PreEscaped(svg))
                figcaption {
                    strong { (comparison.configuration) } " minus " strong { (comparison.baseline) } ", "
                    (comparison.metric.to_string()) " by query: " (wins) " won, " (losses) " lost, " (ties) " unchanged"
                    @for (label, queries) in [("won most", won), ("lost most", lost)] {
                        @if !queries.is_empty() { br; (label) ": " (listed(&queries)) }
                    }
                }
            }
        });
    }
    Ok(html! { div.grid { @for figure in figures { (figure) } } })
}

fn listed(queries: &[(&str, f64)]) -> String {
    let one = |(query, difference): &(&str, f64)| format!("{query} ({difference:+.2})");
    queries.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What only a running service shows.
fn service(findings: &Findings) -> Result<Markup> {
    if findings.measured.is_empty() {
        return Ok(html! {});
    }
    Ok(html! {
        h2 { "Scores of judged chunks" }
        (distributions(findings)?)
        h2 { "Time" }
        (tables::times(findings))
    })
}

/// One plot a kind of score: of the first configuration that gave it.
fn distributions(findings: &Findings) -> Result<Markup> {
    let mut seen: Vec<&str> = Vec::new();
    let mut figures = Vec::new();
    for measured in &findings.measured {
        for scores in &measured.scores {
            if seen.contains(&scores.kind.as_str()) {
                continue;
            }
            seen.push(&scores.kind);
            let svg = plots::histogram(scores)?;
            figures.push(html! {
                figure {
                    (PreEscaped(svg))
                    figcaption {
                        strong { (scores.kind) } " of " (measured.configuration.name) ": "
                        span.relevant { (scores.relevant.len()) " relevant" } ", "
                        span.irrelevant { (scores.irrelevant.len()) " irrelevant" } " (unjudged chunks are in neither)"
                    }
                }
            });
        }
    }
    Ok(html! {
        @if figures.is_empty() { p { "No judged chunk came back." } }
        div.grid { @for figure in figures { (figure) } }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::eval::configurations::Configuration;
    use crate::cli::eval::measured::Measured;
    use crate::evaluation::{
        Dropped, EvaluationPlan, Judgements, Metric, Ranked, Scores, evaluate,
    };
    use crate::wire::v1;

    const NASTY: &str = "<script>alert('x')</script>";

    fn findings() -> Findings {
        let mut judgements = Judgements::default();
        let asked: Vec<String> = (0..12).map(|n| format!("q{n}")).collect();
        asked
            .iter()
            .for_each(|query| assert!(judgements.insert(query, "d", 1)));
        let ranked = |name: &str, baselines: &[&str], every: usize| Ranked {
            name: name.into(),
            baselines: baselines.iter().map(|b| (*b).to_owned()).collect(),
            rankings: asked
                .iter()
                .step_by(every)
                .map(|q| (q.clone(), vec!["d".to_owned()]))
                .collect(),
        };
        let plan = EvaluationPlan {
            metrics: vec![Metric::Ndcg(10), Metric::Judged(10)],
            relevant_from: 1,
            seed: 1,
        };
        let all = [ranked("base", &[], 2), ranked(NASTY, &["base"], 1)];
        let configuration = Configuration {
            name: NASTY.into(),
            options: v1::RetrieveOptions::default(),
            baselines: None,
        };
        let mut dropped = Dropped::default();
        dropped.add([("d", true)]);
        let measured = Measured {
            configuration,
            rankings: std::collections::BTreeMap::new(),
            latencies: vec![1.0, 2.0],
            stages: Vec::new(),
            degraded: std::collections::BTreeMap::new(),
            truncated: 0,
            scores: vec![
                Scores {
                    kind: "COSINE".into(),
                    relevant: vec![0.5, 0.7],
                    irrelevant: vec![0.1],
                },
                Scores {
                    kind: "RRF".into(),
                    relevant: vec![0.5],
                    irrelevant: vec![],
                },
            ],
            dropped: Some(dropped),
        };
        Findings {
            facts: Vec::new(),
            evaluation: evaluate(&all, &judgements, &asked, plan),
            measured: vec![measured],
            skipped: vec![("reranking".into(), "needs a model".into())],
            warnings: vec!["a & b".into()],
        }
    }

    #[test]
    fn a_page_stands_alone_and_escapes_every_name() {
        let page = page(&findings()).expect("a page");
        assert!(!page.contains("<script"), "names are escaped");
        for outside in ["src=", "href=", "url(", "@import", "http-equiv"] {
            assert!(!page.contains(outside), "{outside} would fetch something");
        }
        let shown = [
            "reranking",
            "was skipped: needs a model",
            "a &amp; b",
            "FILTER drops 100.0 %",
            "is better than base",
        ];
        for shown in shown {
            assert!(page.contains(shown), "{shown}");
        }
        // One of bars, one of wins and losses, two of scores.
        assert_eq!(page.matches("<svg").count(), 4);
    }

    #[test]
    fn run_files_alone_make_a_page_too() {
        let findings = Findings {
            measured: Vec::new(),
            ..findings()
        };
        let page = page(&findings).expect("a page");
        assert!(!page.contains("Scores of judged chunks"));
    }
}
