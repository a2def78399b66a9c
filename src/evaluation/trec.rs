//! TREC run files: `query Q0 document rank score tag`. Must not know files.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::judgements::columns;
use super::ranking::trec_order;
use crate::error::{Error, Result};

/// Scored documents by query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// (document, score) in the file's order.
    pub by_query: BTreeMap<String, Vec<(String, f64)>>,
}

impl Run {
    /// Documents by query in the order that `trec_eval` gives them: the rank column means nothing to it.
    pub fn rankings(self) -> BTreeMap<String, Vec<String>> {
        let ranked = |(query, scored)| (query, trec_order(scored));
        self.by_query.into_iter().map(ranked).collect()
    }
}

/// Reads a run file.
///
/// # Errors
/// `InvalidField` naming `name` and the line, when a line has no six columns, a score is no finite number, or a document
/// comes twice for a query.
pub fn parse_run(name: &str, text: &str) -> Result<Run> {
    let mut run = Run::default();
    let mut seen = std::collections::HashSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let columns = columns(line);
        if columns.is_empty() {
            continue;
        }
        let wrong = |problem: &str| Error::invalid_field(name, format!("line {number} {problem}"));
        let [query, _, document, _, score, _] = columns[..] else {
            return Err(wrong("must be: query Q0 document rank score tag"));
        };
        let score: f64 = score
            .parse()
            .map_err(|_| wrong("has a score that is no number"))?;
        if !score.is_finite() {
            return Err(wrong("has a score that is no finite number"));
        }
        if !seen.insert((query, document)) {
            return Err(wrong("names a document of its query again"));
        }
        let scored = run.by_query.entry(query.to_owned()).or_default();
        scored.push((document.to_owned(), score));
    }
    if run.by_query.is_empty() {
        return Err(Error::invalid_field(name, "has no line"));
    }
    Ok(run)
}

/// Writes rankings as a run file, its columns apart by tabs because ids may hold spaces. Scores are lowered to the next 32-bit number where they would not fall, so that every reader,
/// `trec_eval` with its own order of ties too, sees the order given.
pub fn format_run(rankings: &BTreeMap<String, Vec<(String, f64)>>, tag: &str) -> String {
    let mut text = String::new();
    for (query, ranking) in rankings {
        let mut before = f32::INFINITY;
        for (rank, (document, score)) in (1..).zip(ranking) {
            let score = (*score as f32).min(before.next_down());
            before = score;
            // Writing into a string can't fail.
            let _ = writeln!(text, "{query}\tQ0\t{document}\t{rank}\t{score}\t{tag}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_mean_nothing_and_bad_lines_are_named() {
        let run = parse_run("a.run", "q Q0 b 1 0.5 t\nq Q0 a 2 0.75 t\nq Q0 c 3 0.5 t\n").unwrap();
        assert_eq!(run.rankings()["q"], ["a", "c", "b"]);
        let cases = [
            ("q Q0 d 1 0.5\n", "a.run line 1 must be"),
            ("q Q0 d 1 x t\n", "a.run line 1 has a score"),
            ("q Q0 d 1 NaN t\n", "a.run line 1 has a score"),
            ("q Q0 d 1 1 t\nq Q0 d 2 1 t\n", "a.run line 2 names"),
            ("", "a.run has no line"),
        ];
        for (text, expected) in cases {
            let error = parse_run("a.run", text).unwrap_err();
            assert!(error.message().starts_with(expected), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_written_run_is_read_in_the_same_order(scores in prop::collection::vec(-3i32..3, 1..60)) {
            let ranking: Vec<(String, f64)> =
                scores.iter().enumerate().map(|(n, s)| (format!("d {n}"), f64::from(*s))).collect();
            let expected: Vec<String> = ranking.iter().map(|(d, _)| d.clone()).collect();
            let text = format_run(&[("q".to_owned(), ranking)].into(), "tag");
            let read = parse_run("written", &text).unwrap().rankings();
            prop_assert_eq!(&read["q"], &expected);
        }
    }
}
