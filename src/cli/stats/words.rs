//! Figures and questions in the words of a table, the same on a terminal and on a page. Pure.

use super::super::printable::printable;
use crate::wire::v1;

/// Characters of a text that are shown.
pub(super) const TEXT: usize = 160;
/// Questions of a cluster that are named.
const NAMED: usize = 5;

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A count with its share, and what it is made of.
fn share(share: f64, count: u32, more: String) -> String {
    match (count, more.as_str()) {
        (0, _) => String::new(),
        (_, "") => format!("{count} ({})", percent(share)),
        (_, more) => format!("{count} ({}): {more}", percent(share)),
    }
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

/// The questions of a cluster, and how many more there are.
pub(in crate::cli) fn members(cluster: &v1::QueryCluster) -> Vec<String> {
    let named = cluster.queries.iter().take(NAMED);
    let mut lines: Vec<String> = named.map(|query| question(Some(query))).collect();
    let more = (cluster.query_count as usize).saturating_sub(lines.len());
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
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
            query_count: 9,
            ..v1::QueryCluster::default()
        };
        assert_eq!(members(&cluster)[5], "and 4 more");
    }
}
