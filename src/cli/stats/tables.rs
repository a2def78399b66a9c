//! Views as tables for a person.

use super::super::moments::shown;
use super::super::output;
use super::super::printable::printable;
use crate::error::Result;
use crate::wire::v1;

const TEXT: usize = 160;
/// Questions of a cluster that are named.
const NAMED: usize = 5;

/// Whatever a response holds; a list without rows says so.
pub(super) fn view(response: &v1::StatsResponse) -> Result<()> {
    totals(&response.totals)?;
    timeline(&response.timeline)?;
    latencies(&response.latencies)?;
    documents(&response.documents)?;
    unretrieved(&response.unretrieved)?;
    queries(&response.queries)?;
    clusters(&response.clusters)?;
    judgements(&response.judgements)?;
    let rows = [
        response.totals.len(),
        response.timeline.len(),
        response.latencies.len(),
        response.documents.len(),
        response.unretrieved.len(),
        response.queries.len(),
        response.clusters.len(),
        response.judgements.len(),
    ];
    if rows.iter().all(|rows| *rows == 0) {
        output::line("nothing in this window")?;
    }
    if response.truncated {
        output::line("and more: raise --limit, or narrow the window")?;
    }
    Ok(())
}

pub(in crate::cli) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(super) fn totals(rows: &[v1::CorpusTotals]) -> Result<()> {
    for totals in rows {
        let span = format!("{} to {}", shown(totals.first_at), shown(totals.last_at));
        let span = if totals.retrievals == 0 { "" } else { &span };
        let (corpus, retrievals) = (&totals.corpus, totals.retrievals);
        output::line(&format!("corpus {corpus}: {retrievals} retrievals {span}"))?;
        for (label, text) in facts(totals) {
            output::line(&format!("  {label}: {text}"))?;
        }
    }
    Ok(())
}

/// What the totals say, without what did not occur.
pub(in crate::cli) fn facts(totals: &v1::CorpusTotals) -> Vec<(&'static str, String)> {
    let list = |counts: Vec<String>| counts.join(", ");
    let outcomes = totals.outcomes.iter();
    let outcomes = outcomes.map(|o| format!("{} {}", o.outcome().as_str_name(), o.count));
    let failures = totals.failures.iter();
    let failures = failures.map(|f| format!("{} {}", f.kind, f.count));
    let stages = totals.degraded_stages.iter();
    let stages = stages.map(|s| format!("{} {}", s.stage, s.count));
    let share = |share: f64, count: u32, more: String| match (count, more.as_str()) {
        (0, _) => String::new(),
        (_, "") => format!("{count} ({})", percent(share)),
        (_, more) => format!("{count} ({}): {more}", percent(share)),
    };
    let failed_share = f64::from(totals.failed) / f64::from(totals.retrievals.max(1));
    let facts = [
        ("outcomes", list(outcomes.collect())),
        (
            "failed",
            share(failed_share, totals.failed, list(failures.collect())),
        ),
        (
            "found nothing",
            share(totals.zero_hit_share, totals.zero_hits, String::new()),
        ),
        (
            "degraded",
            share(
                totals.degraded_share,
                totals.degraded,
                list(stages.collect()),
            ),
        ),
        (
            "chunks",
            format!(
                "{} returned, {} dropped",
                totals.returned_chunks, totals.dropped_chunks
            ),
        ),
        ("feedback", feedback(totals.feedback)),
    ];
    let told = |fact: &(&str, String)| !fact.1.is_empty();
    facts.into_iter().filter(told).collect()
}

/// Judgements from bad to good, without what was not given.
pub(in crate::cli) fn feedback(counts: Option<v1::JudgementCounts>) -> String {
    let counts = counts.unwrap_or_default();
    let parts = [
        ("not relevant", counts.not_relevant),
        ("partially relevant", counts.partially_relevant),
        ("relevant", counts.relevant),
        ("highly relevant", counts.highly_relevant),
    ];
    let given = parts.iter().filter(|(_, count)| *count > 0);
    let given: Vec<String> = given
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    given.join(", ")
}

/// Means with their kinds: numbers of different kinds don't compare.
pub(in crate::cli) fn means(scores: &[v1::MeanScore]) -> String {
    let one = |score: &v1::MeanScore| format!("{:.3} {}", score.mean, score.kind().as_str_name());
    scores.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn timeline(rows: &[v1::TimeSlice]) -> Result<()> {
    let header = ["from", "retrievals", "found nothing", "failed", "degraded"];
    let row = |slice: &v1::TimeSlice| {
        let counts = [
            slice.retrievals,
            slice.zero_hits,
            slice.failed,
            slice.degraded,
        ];
        let [all, none, failed, degraded] = counts.map(|count| count.to_string());
        [shown(slice.since), all, none, failed, degraded]
    };
    table(header, rows, row)
}

pub(super) fn latencies(rows: &[v1::Latency]) -> Result<()> {
    let header = [
        "stage",
        "samples",
        "p50 ms",
        "p90 ms",
        "p95 ms",
        "p99 ms",
        "longest ms",
    ];
    let row = |latency: &v1::Latency| {
        let stage = match latency.stage.as_str() {
            "" => "whole request",
            stage => stage,
        };
        let times = [
            latency.p50_ms,
            latency.p90_ms,
            latency.p95_ms,
            latency.p99_ms,
            latency.max_ms,
        ];
        let [p50, p90, p95, p99, max] = times.map(|ms| format!("{ms:.1}"));
        let samples = latency.samples.to_string();
        [stage.to_owned(), samples, p50, p90, p95, p99, max]
    };
    table(header, rows, row)
}

pub(super) fn documents(rows: &[v1::DocumentUse]) -> Result<()> {
    let header = [
        "document",
        "retrievals",
        "first",
        "last",
        "mean score",
        "feedback",
    ];
    let row = |document: &v1::DocumentUse| {
        [
            printable(&document.document_id, TEXT),
            document.retrievals.to_string(),
            shown(document.first_at),
            shown(document.last_at),
            means(&document.mean_scores),
            feedback(document.feedback),
        ]
    };
    table(header, rows, row)
}

pub(super) fn unretrieved(rows: &[v1::UnretrievedDocument]) -> Result<()> {
    let row = |document: &v1::UnretrievedDocument| {
        let id = printable(&document.document_id, TEXT);
        [id, document.chunks.to_string(), shown(document.updated_at)]
    };
    table(["document", "chunks", "changed"], rows, row)
}

/// A question, or that it is kept as a hash.
pub(in crate::cli) fn question(query: Option<&v1::AskedQuery>) -> String {
    let query = query.cloned().unwrap_or_default();
    let text = printable(&query.text, TEXT);
    if query.hashed {
        format!("hash {text}")
    } else {
        text
    }
}

pub(super) fn queries(rows: &[v1::QueryUse]) -> Result<()> {
    let header = [
        "question",
        "asked",
        "found nothing",
        "failed",
        "last",
        "mean first score",
    ];
    let row = |query: &v1::QueryUse| {
        let counts = [query.retrievals, query.zero_hits, query.failed];
        let [asked, none, failed] = counts.map(|count| count.to_string());
        let (last, means) = (shown(query.last_at), means(&query.mean_scores));
        [
            question(query.query.as_ref()),
            asked,
            none,
            failed,
            last,
            means,
        ]
    };
    table(header, rows, row)
}

/// The questions of a cluster, and how many more there are.
pub(in crate::cli) fn members(cluster: &v1::QueryCluster) -> Vec<String> {
    let named = cluster.queries.iter().take(NAMED);
    let mut lines: Vec<String> = named.map(|query| question(Some(query))).collect();
    let more = cluster.queries.len().saturating_sub(NAMED);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

pub(super) fn clusters(rows: &[v1::QueryCluster]) -> Result<()> {
    let row = |cluster: &v1::QueryCluster| {
        [
            members(cluster).join("\n"),
            cluster.retrievals.to_string(),
            format!("{:.2}", cluster.similarity),
            cluster.shared_documents.len().to_string(),
        ]
    };
    table(
        ["questions", "asked", "likeness", "shared documents"],
        rows,
        row,
    )
}

fn judgements(rows: &[v1::Judgement]) -> Result<()> {
    let row = |judgement: &v1::Judgement| {
        [
            question(judgement.query.as_ref()),
            printable(&judgement.document_id, TEXT),
            judgement.outcome().as_str_name().to_owned(),
            shown(judgement.judged_at),
        ]
    };
    table(["question", "document", "judgement", "given"], rows, row)
}

fn table<T, const N: usize>(
    header: [&str; N],
    rows: &[T],
    row: impl Fn(&T) -> [String; N],
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = output::table(header);
    for one in rows {
        table.add_row(row(one));
    }
    output::line(&table.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_leave_out_what_did_not_occur() {
        let totals = v1::CorpusTotals {
            retrievals: 8,
            failed: 2,
            failures: vec![v1::FailureCount {
                kind: "timeout".into(),
                count: 2,
            }],
            zero_hits: 1,
            zero_hit_share: 0.125,
            feedback: Some(v1::JudgementCounts {
                relevant: 3,
                ..v1::JudgementCounts::default()
            }),
            ..v1::CorpusTotals::default()
        };
        let expected = [
            ("failed", "2 (25.0 %): timeout 2"),
            ("found nothing", "1 (12.5 %)"),
            ("chunks", "0 returned, 0 dropped"),
            ("feedback", "3 relevant"),
        ];
        let expected = expected.map(|(label, text)| (label, text.to_owned()));
        assert_eq!(facts(&totals), expected);
    }

    #[test]
    fn a_hash_is_no_question_and_escapes_are_shown() {
        let query = |text: &str, hashed| v1::AskedQuery {
            text: text.into(),
            hashed,
        };
        assert_eq!(question(Some(&query("ab12", true))), "hash ab12");
        assert!(!question(Some(&query("\u{1b}[31mred", false))).contains('\u{1b}'));
        let cluster = v1::QueryCluster {
            queries: (0..7).map(|n| query(&n.to_string(), false)).collect(),
            ..v1::QueryCluster::default()
        };
        assert_eq!(members(&cluster)[5], "and 2 more");
    }
}
