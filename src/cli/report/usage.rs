//! What corpora were used for, as one HTML page: nothing in it comes from elsewhere. Questions and document ids are whatever
//! callers sent, so every text is escaped, and nothing becomes an attribute or a link.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::super::moments::shown;
use super::super::printable::printable;
use super::super::stats::usage::Usage;
use super::super::stats::{facts, feedback, means, members, question};
use super::{STYLE, usage_plots};
use crate::error::Result;
use crate::wire::v1;

const ID: usize = 160;

/// The page.
///
/// # Errors
/// `Internal` when a plot can't be drawn.
pub(in crate::cli) fn usage_page(tenant: &str, usages: &[Usage]) -> Result<String> {
    let corpora = usages.iter().map(corpus).collect::<Result<Vec<_>>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Retrievals of " (tenant) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Retrievals of " (tenant) }
                @if corpora.is_empty() { p { "No retrieval is kept of this window." } }
                @for corpus in &corpora { (corpus) }
                p.method {
                    "Times are UTC. Percentiles are values that occurred. Means are within one kind of score. A question found nothing when "
                    "nothing matched, or nothing relevant was left."
                }
            }
        }
    };
    Ok(page.into_string())
}

fn corpus(usage: &Usage) -> Result<Markup> {
    let totals = &usage.totals;
    Ok(html! {
        h2 { "Corpus " (usage.corpus) }
        dl.facts {
            div { dt { "retrievals" } dd { (totals.retrievals) } }
            div { dt { "first" } dd { (shown(totals.first_at)) } }
            div { dt { "last" } dd { (shown(totals.last_at)) } }
            @for (label, text) in facts(totals) { div { dt { (label) } dd { (text) } } }
        }
        (figure(usage_plots::over_time(&usage.timeline)?, &parts("Retrievals over time", ["answered", "found nothing", "failed"])))
        div.grid {
            (figure(usage_plots::outcomes(totals)?, &html! { "Outcomes" }))
            (figure(usage_plots::latencies(&usage.latencies)?, &parts("Time in ms", ["p50", "p90", "p99"])))
            (figure(usage_plots::documents(&usage.documents)?, &html! { "Documents in most replies" }))
            (figure(usage_plots::zero_hits(&usage.zero_hit_queries)?, &html! { "Questions that found nothing" }))
        }
        (section("Documents, most retrieved first", &usage.documents, documents))
        (section("Retrieved often and judged bad", &usage.poor_documents, documents))
        (section("Never retrieved", &usage.unretrieved, unretrieved))
        @if usage.more_unretrieved { p { "And more." } }
        (section("Questions, most frequent first", &usage.queries, queries))
        (section("Questions that found nothing", &usage.zero_hit_queries, queries))
        (section("Questions of low relevance", &usage.low_relevance_queries, queries))
        (section("Questions that led to the same documents", &usage.clusters, clusters))
    })
}

/// What a plot shows, its parts in the colours they have in it.
fn parts(title: &str, parts: [&str; 3]) -> Markup {
    let [first, second, third] = parts;
    html! { (title) ": " span.relevant { (first) } ", " span.irrelevant { (second) } ", " span.failed { (third) } }
}

/// A plot that has something to show.
fn figure(svg: Option<String>, caption: &Markup) -> Markup {
    html! {
        @if let Some(svg) = svg { figure { (PreEscaped(svg)) figcaption { (caption) } } }
    }
}

fn section<T>(title: &str, rows: &[T], table: fn(&[T]) -> Markup) -> Markup {
    html! {
        @if !rows.is_empty() { h3 { (title) } (table(rows)) }
    }
}

/// Lines of a cell.
fn lines(text: &str) -> Markup {
    html! {
        @for (number, line) in text.lines().enumerate() { @if number > 0 { br; } (line) }
    }
}

fn documents(rows: &[v1::DocumentUse]) -> Markup {
    html! {
        table {
            thead { tr {
                th.text { "document" } th { "retrievals" } th { "first" } th { "last" } th { "mean score" } th.text { "feedback" }
            } }
            tbody { @for row in rows { tr {
                td.text { (printable(&row.document_id, ID)) }
                td { (row.retrievals) }
                td { (shown(row.first_at)) }
                td { (shown(row.last_at)) }
                td { (lines(&means(&row.mean_scores))) }
                td.text { (feedback(row.feedback)) }
            } } }
        }
    }
}

fn unretrieved(rows: &[v1::UnretrievedDocument]) -> Markup {
    html! {
        table {
            thead { tr { th.text { "document" } th { "chunks" } th { "changed" } } }
            tbody { @for row in rows { tr {
                td.text { (printable(&row.document_id, ID)) }
                td { (row.chunks) }
                td { (shown(row.updated_at)) }
            } } }
        }
    }
}

fn queries(rows: &[v1::QueryUse]) -> Markup {
    html! {
        table {
            thead { tr {
                th.text { "question" } th { "asked" } th { "found nothing" } th { "failed" } th { "last" } th { "mean first score" }
            } }
            tbody { @for row in rows { tr {
                td.text { (question(row.query.as_ref())) }
                td { (row.retrievals) } td { (row.zero_hits) } td { (row.failed) }
                td { (shown(row.last_at)) }
                td { (lines(&means(&row.mean_scores))) }
            } } }
        }
    }
}

fn clusters(rows: &[v1::QueryCluster]) -> Markup {
    html! {
        table {
            thead { tr { th.text { "questions" } th { "asked" } th { "likeness" } th.text { "documents that all led to" } } }
            tbody { @for row in rows { tr {
                td.text { @for member in members(row) { div { (member) } } }
                td { (row.retrievals) }
                td { (format!("{:.2}", row.similarity)) }
                td.text { @for id in row.shared_documents.iter().take(5) { div { (printable(id, ID)) } } }
            } } }
        }
    }
}

#[cfg(test)]
mod tests;
