//! Relevance judgements of (query, document) pairs, from TREC and BEIR text.
//!
//! Must not know files: a text comes with the name to blame.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// Grades of the judged documents of one query, by document id.
pub type Grades = BTreeMap<String, i32>;

/// Grades by query and document. A pair that isn't here is unjudged, which is not the same as irrelevant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgements {
    by_query: BTreeMap<String, Grades>,
}

impl Judgements {
    /// Reads `query 0 document grade` (TREC) or `query document grade` (BEIR), told apart by the number of columns.
    /// Columns end at white space, or at tabs where a line has any; a first line whose last column is no number is a header.
    ///
    /// # Errors
    /// `InvalidField` naming `name` and the line, when a line has other columns, a grade is no integer, or a pair has two grades.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut judgements = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let columns = columns(line);
            if columns.is_empty() {
                continue;
            }
            let wrong =
                |problem: &str| Error::invalid_field(name, format!("line {number} {problem}"));
            let (query, document, grade) = match columns[..] {
                [query, document, grade] | [query, _, document, grade] => (query, document, grade),
                _ => {
                    return Err(wrong(
                        "must be: query document grade, or query 0 document grade",
                    ));
                }
            };
            let grade = match grade.parse() {
                Ok(grade) => grade,
                Err(_) if number == 1 => continue,
                Err(_) => return Err(wrong("has a grade that is no integer")),
            };
            if !judgements.insert(query, document, grade) {
                return Err(wrong("gives a pair another grade than a line before"));
            }
        }
        if judgements.by_query.is_empty() {
            return Err(Error::invalid_field(name, "has no judgement"));
        }
        Ok(judgements)
    }

    /// Adds a judgement. False when the pair has another grade already, which it keeps.
    pub fn insert(&mut self, query: &str, document: &str, grade: i32) -> bool {
        let grades = self.by_query.entry(query.to_owned()).or_default();
        *grades.entry(document.to_owned()).or_insert(grade) == grade
    }

    /// The grades of a query.
    pub fn of(&self, query: &str) -> Option<&Grades> {
        self.by_query.get(query)
    }

    /// The grade of a pair; `None` = unjudged.
    pub fn grade(&self, query: &str, document: &str) -> Option<i32> {
        self.of(query)?.get(document).copied()
    }

    /// Judged queries in id order.
    pub fn queries(&self) -> impl Iterator<Item = &str> {
        self.by_query.keys().map(String::as_str)
    }

    /// Judged pairs.
    pub fn pairs(&self) -> usize {
        self.by_query.values().map(BTreeMap::len).sum()
    }

    /// Whether a query has a document graded `from` or higher: without one, nothing can be found and no measure means anything.
    pub fn has_relevant(&self, query: &str, from: i32) -> bool {
        let grades = self.of(query);
        grades.is_some_and(|grades| grades.values().any(|grade| *grade >= from))
    }
}

/// Ids of BEIR files may hold spaces, so tabs win where there are any.
pub(super) fn columns(line: &str) -> Vec<&str> {
    if line.contains('\t') {
        line.split('\t')
            .map(str::trim)
            .filter(|c| !c.is_empty())
            .collect()
    } else {
        line.split_whitespace().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_give_the_same() {
        let beir = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td 2\t0\n";
        let trec = "q1 0 d1 2\n\nq1 Q0 d3 -1\n";
        let beir = Judgements::parse("qrels.tsv", beir).unwrap();
        assert_eq!(
            (beir.grade("q1", "d1"), beir.grade("q1", "d 2")),
            (Some(2), Some(0))
        );
        assert_eq!(beir.grade("q1", "d9"), None);
        let trec = Judgements::parse("qrels", trec).unwrap();
        assert_eq!((trec.grade("q1", "d3"), trec.pairs()), (Some(-1), 2));
        assert!(trec.has_relevant("q1", 2) && !trec.has_relevant("q1", 3));
    }

    #[test]
    fn a_bad_line_is_named() {
        let cases = [
            ("q d\n", "qrels line 1 must be"),
            ("q d 1\nq d x\n", "qrels line 2 has a grade"),
            ("q d 1\nq d 2\n", "qrels line 2 gives a pair another grade"),
            ("\n", "qrels has no judgement"),
        ];
        for (text, expected) in cases {
            let error = Judgements::parse("qrels", text).unwrap_err();
            assert!(error.message().starts_with(expected), "{error}");
        }
        assert!(Judgements::parse("qrels", "q d 1\nq d 1\n").is_ok());
    }
}
