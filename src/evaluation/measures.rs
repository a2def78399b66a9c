//! Measures of one ranking against one query's grades, equal to `trec_eval`'s (`tests/evaluation.rs`).

use std::fmt;

use super::judgements::Grades;

/// A measure cut at a rank; 0 to 1, more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Σ gain/log₂(rank + 1) over the best possible sum; the gain is the grade, 0 for grades below 0 (`ndcg_cut`; Järvelin and
    /// Kekäläinen 2002 with the linear gain).
    Ndcg(usize),
    /// 1/rank of the first relevant document within the cut, else 0 (`recip_rank` of a list cut there).
    ReciprocalRank(usize),
    /// Relevant documents within the cut by all relevant ones (`recall`).
    Recall(usize),
    /// Judged documents by returned documents, within the cut: how far the other figures can be trusted.
    Judged(usize),
}

impl Metric {
    /// The value for a ranking of documents, best first. A grade of `relevant_from` or higher is relevant; unjudged documents
    /// gain nothing, as everywhere.
    pub fn value(self, ranking: &[String], grades: &Grades, relevant_from: i32) -> f64 {
        let top = |k: usize| {
            ranking
                .iter()
                .take(k)
                .map(|document| grades.get(document).copied())
        };
        let relevant = |grade: &Option<i32>| grade.is_some_and(|grade| grade >= relevant_from);
        match self {
            Metric::Ndcg(k) => {
                let ideal = ideal_dcg(grades, k);
                let dcg = dcg(top(k).map(|grade| grade.unwrap_or(0)));
                if ideal > 0.0 { dcg / ideal } else { 0.0 }
            }
            Metric::ReciprocalRank(k) => {
                let first = top(k).position(|grade| relevant(&grade));
                first.map_or(0.0, |index| 1.0 / (index as f64 + 1.0))
            }
            Metric::Recall(k) => {
                let all = grades
                    .values()
                    .filter(|grade| **grade >= relevant_from)
                    .count();
                ratio(top(k).filter(relevant).count(), all)
            }
            Metric::Judged(k) => {
                ratio(top(k).filter(Option::is_some).count(), ranking.len().min(k))
            }
        }
    }

    /// Whether it says how good a ranking is, so that two can be compared by it.
    pub fn is_quality(self) -> bool {
        !matches!(self, Metric::Judged(_))
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Metric::Ndcg(k) => write!(f, "nDCG@{k}"),
            Metric::ReciprocalRank(k) => write!(f, "MRR@{k}"),
            Metric::Recall(k) => write!(f, "Recall@{k}"),
            Metric::Judged(k) => write!(f, "judged@{k}"),
        }
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn dcg(grades: impl Iterator<Item = i32>) -> f64 {
    let gain = |(index, grade): (usize, i32)| f64::from(grade.max(0)) / (index as f64 + 2.0).log2();
    grades.enumerate().map(gain).sum()
}

fn ideal_dcg(grades: &Grades, k: usize) -> f64 {
    let mut best: Vec<i32> = grades.values().copied().collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    dcg(best.into_iter().take(k))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grades(pairs: &[(&str, i32)]) -> Grades {
        pairs.iter().map(|(d, g)| ((*d).to_owned(), *g)).collect()
    }

    fn list(documents: &[&str]) -> Vec<String> {
        documents.iter().map(|d| (*d).to_owned()).collect()
    }

    #[test]
    fn values_by_hand() {
        let grades = grades(&[("a", 3), ("b", 1), ("c", 0), ("d", -1)]);
        let ranking = list(&["x", "b", "d", "a"]);
        let dcg = 1.0 / 3f64.log2() + 3.0 / 5f64.log2();
        let ideal = 3.0 + 1.0 / 3f64.log2();
        let value = |metric: Metric, from| metric.value(&ranking, &grades, from);
        assert!((value(Metric::Ndcg(10), 1) - dcg / ideal).abs() < 1e-12);
        assert_eq!(value(Metric::ReciprocalRank(10), 1), 0.5);
        assert_eq!(value(Metric::ReciprocalRank(10), 2), 0.25);
        assert_eq!(value(Metric::ReciprocalRank(3), 2), 0.0);
        assert_eq!(
            (value(Metric::Recall(2), 1), value(Metric::Recall(9), 1)),
            (0.5, 1.0)
        );
        assert_eq!(value(Metric::Judged(10), 1), 0.75);
    }

    #[test]
    fn nothing_returned_or_nothing_relevant_is_0() {
        let all = [
            Metric::Ndcg(10),
            Metric::ReciprocalRank(10),
            Metric::Recall(10),
            Metric::Judged(10),
        ];
        for metric in all {
            assert_eq!(metric.value(&[], &grades(&[("a", 1)]), 1), 0.0);
            assert!(metric.value(&list(&["a"]), &grades(&[("a", 0)]), 1) <= 1.0);
        }
    }

    proptest! {
        #[test]
        fn values_lie_within_0_and_1_and_the_ideal_order_is_best(
            graded in prop::collection::btree_map("[a-z]{1,3}", -1i32..4, 1..30),
            k in 1usize..20,
        ) {
            let mut best: Vec<(String, i32)> = graded.clone().into_iter().collect();
            best.sort_by_key(|(_, grade)| -grade);
            let best: Vec<String> = best.into_iter().map(|(d, _)| d).collect();
            let other: Vec<String> = graded.keys().cloned().collect();
            for metric in [Metric::Ndcg(k), Metric::ReciprocalRank(k), Metric::Recall(k)] {
                let (top, any) = (metric.value(&best, &graded, 1), metric.value(&other, &graded, 1));
                prop_assert!((0.0..=1.0 + 1e-12).contains(&top) && any <= top + 1e-12);
            }
            if graded.values().any(|grade| *grade > 0) {
                prop_assert!((Metric::Ndcg(k).value(&best, &graded, 1) - 1.0).abs() < 1e-12);
            }
        }
    }
}
