//! Views as tables for a person.

use super::super::moments::shown;
use super::super::output;
use super::super::printable::printable;
use super::words::{TEXT, facts, feedback, means, members, question};
use crate::error::Result;
use crate::wire::v1;

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

pub(super) fn clusters(rows: &[v1::QueryCluster]) -> Result<()> {
    let row = |cluster: &v1::QueryCluster| {
        [
            members(cluster).join("\n"),
            cluster.retrievals.to_string(),
            format!("{:.2}", cluster.similarity),
            cluster.shared_document_count.to_string(),
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
