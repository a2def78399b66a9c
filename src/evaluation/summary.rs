//! Configurations measured on the same queries, and each beside its baselines. Must not know where rankings come from.

use std::collections::BTreeMap;

use super::judgements::{Grades, Judgements};
use super::measures::Metric;
use super::resampling::{Estimate, holm, mean_interval, sign_flip_p};

/// Below it a difference is called one.
pub const SIGNIFICANCE: f64 = 0.05;

/// What is measured and how.
#[derive(Debug, Clone, PartialEq)]
pub struct EvaluationPlan {
    /// Measures; the first one of quality is the one that verdicts go by.
    pub metrics: Vec<Metric>,
    /// The lowest grade that is relevant.
    pub relevant_from: i32,
    /// Of every resampling.
    pub seed: u64,
}

/// What a configuration answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranked {
    /// Its name.
    pub name: String,
    /// Names of the configurations it is compared with; those that aren't there are passed over.
    pub baselines: Vec<String>,
    /// Documents by query, best first. A query without an entry got nothing.
    pub rankings: BTreeMap<String, Vec<String>>,
}

/// A configuration's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// Its name.
    pub name: String,
    /// Values by metric and query, in the order of the plan and of [`Evaluation::queries`].
    pub values: Vec<Vec<f64>>,
    /// Mean and interval by metric.
    pub means: Vec<Estimate>,
}

/// Two configurations on one measure, query by query.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What is compared.
    pub configuration: String,
    /// What it is compared with.
    pub baseline: String,
    /// By which measure.
    pub metric: Metric,
    /// Value minus the baseline's, by query.
    pub differences: Vec<f64>,
    /// Mean difference with its paired interval.
    pub difference: Estimate,
    /// Of the paired randomisation test.
    pub p: f64,
    /// Corrected by Holm over all comparisons of the same measure.
    pub p_holm: f64,
}

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Significantly better.
    Helps,
    /// Significantly worse.
    Hurts,
    /// Nothing that chance alone would not do.
    NoDifference,
}

impl Comparison {
    /// The verdict at [`SIGNIFICANCE`] on the corrected p-value.
    pub fn verdict(&self) -> Verdict {
        match self.p_holm < SIGNIFICANCE {
            true if self.difference.mean > 0.0 => Verdict::Helps,
            true => Verdict::Hurts,
            false => Verdict::NoDifference,
        }
    }

    /// Queries that won, lost and stayed.
    pub fn wins_losses_ties(&self) -> (usize, usize, usize) {
        let count = |test: fn(f64) -> bool| self.differences.iter().filter(|d| test(**d)).count();
        (count(|d| d > 0.0), count(|d| d < 0.0), count(|d| d == 0.0))
    }

    /// The queries that won most, best first, and those that lost most, worst first; `queries` are those of the evaluation.
    pub fn extremes<'a>(&self, queries: &'a [String], most: usize) -> [Vec<(&'a str, f64)>; 2] {
        let pairs = queries
            .iter()
            .map(String::as_str)
            .zip(self.differences.iter().copied());
        let mut sorted: Vec<(&str, f64)> = pairs.filter(|(_, d)| *d != 0.0).collect();
        sorted.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let won = sorted.iter().filter(|(_, d)| *d > 0.0).take(most);
        let lost = sorted.iter().rev().filter(|(_, d)| *d < 0.0).take(most);
        [won.copied().collect(), lost.copied().collect()]
    }

    /// The verdict as a sentence.
    pub fn sentence(&self) -> String {
        let Estimate { mean, low, high } = self.difference;
        let figures = format!(
            "{} {mean:+.3}, 95 % interval {low:+.3} to {high:+.3}, p = {:.4} after Holm",
            self.metric, self.p_holm
        );
        let (name, baseline) = (&self.configuration, &self.baseline);
        match self.verdict() {
            Verdict::Helps => format!("{name} is better than {baseline} ({figures})."),
            Verdict::Hurts => format!("{name} is worse than {baseline} ({figures})."),
            Verdict::NoDifference => {
                format!("No significant difference between {name} and {baseline} ({figures}).")
            }
        }
    }
}

/// All figures of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The queries counted: those asked that have a relevant document.
    pub queries: Vec<String>,
    /// Queries asked without one; they would score 0 whatever was returned.
    pub left_out: usize,
    /// The plan.
    pub plan: EvaluationPlan,
    /// Figures by configuration.
    pub configurations: Vec<Evaluated>,
    /// Every configuration beside its baselines, by quality measure.
    pub comparisons: Vec<Comparison>,
}

impl Evaluation {
    /// The measure that verdicts go by, with its place in the plan.
    pub fn primary(&self) -> Option<(usize, Metric)> {
        let metrics = self.plan.metrics.iter().copied().enumerate();
        metrics.into_iter().find(|(_, metric)| metric.is_quality())
    }

    /// Comparisons by the primary measure.
    pub fn verdicts(&self) -> impl Iterator<Item = &Comparison> {
        let primary = self.primary().map(|(_, metric)| metric);
        self.comparisons
            .iter()
            .filter(move |c| Some(c.metric) == primary)
    }
}

/// Measures every configuration on the asked queries. A query that a configuration has no ranking for counts as nothing found.
pub fn evaluate(
    ranked: &[Ranked],
    judgements: &Judgements,
    asked: &[String],
    plan: EvaluationPlan,
) -> Evaluation {
    let counted = |query: &&String| judgements.has_relevant(query, plan.relevant_from);
    let queries: Vec<String> = asked.iter().filter(counted).cloned().collect();
    let measured = |ranked: &Ranked| measure(ranked, judgements, &queries, &plan);
    let configurations: Vec<Evaluated> = ranked.iter().map(measured).collect();
    let mut comparisons = Vec::new();
    for (index, metric) in plan.metrics.iter().copied().enumerate() {
        if metric.is_quality() {
            comparisons.extend(compare(ranked, &configurations, (index, metric), plan.seed));
        }
    }
    let left_out = asked.len() - queries.len();
    Evaluation {
        queries,
        left_out,
        plan,
        configurations,
        comparisons,
    }
}

fn measure(
    ranked: &Ranked,
    judgements: &Judgements,
    queries: &[String],
    plan: &EvaluationPlan,
) -> Evaluated {
    let no_grades = Grades::new();
    let value = |metric: Metric, query: &String| {
        let ranking = ranked.rankings.get(query).map_or(&[][..], Vec::as_slice);
        metric.value(
            ranking,
            judgements.of(query).unwrap_or(&no_grades),
            plan.relevant_from,
        )
    };
    let of_metric = |metric: &Metric| queries.iter().map(|query| value(*metric, query)).collect();
    let values: Vec<Vec<f64>> = plan.metrics.iter().map(of_metric).collect();
    let means = values
        .iter()
        .map(|values| mean_interval(values, plan.seed))
        .collect();
    Evaluated {
        name: ranked.name.clone(),
        values,
        means,
    }
}

fn compare(
    ranked: &[Ranked],
    configurations: &[Evaluated],
    (index, metric): (usize, Metric),
    seed: u64,
) -> Vec<Comparison> {
    let find = |name: &String| configurations.iter().find(|c| c.name == *name);
    let mut comparisons = Vec::new();
    for (own, configuration) in ranked.iter().zip(configurations) {
        for baseline in own.baselines.iter().filter_map(find) {
            let pairs = configuration.values[index]
                .iter()
                .zip(&baseline.values[index]);
            let differences: Vec<f64> = pairs.map(|(own, other)| own - other).collect();
            comparisons.push(Comparison {
                configuration: configuration.name.clone(),
                baseline: baseline.name.clone(),
                metric,
                difference: mean_interval(&differences, seed),
                p: sign_flip_p(&differences, seed),
                p_holm: 1.0,
                differences,
            });
        }
    }
    let corrected = holm(&comparisons.iter().map(|c| c.p).collect::<Vec<_>>());
    for (comparison, p) in comparisons.iter_mut().zip(corrected) {
        comparison.p_holm = p;
    }
    comparisons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(name: &str, baselines: &[&str], found: impl Fn(usize) -> bool) -> Ranked {
        let ranking = |n: usize| {
            vec![if found(n) {
                "d".to_owned()
            } else {
                "x".to_owned()
            }]
        };
        Ranked {
            name: name.into(),
            baselines: baselines.iter().map(|b| (*b).to_owned()).collect(),
            rankings: (0..30).map(|n| (format!("q{n}"), ranking(n))).collect(),
        }
    }

    #[test]
    fn stages_stand_beside_their_baselines_with_an_honest_verdict() {
        let mut judgements = Judgements::default();
        let asked: Vec<String> = (0..31).map(|n| format!("q{n}")).collect();
        for query in &asked[..30] {
            judgements.insert(query, "d", 1);
        }
        judgements.insert("q30", "d", 0);
        let all = [
            ranked("base", &[], |n| n % 2 == 0),
            ranked("better", &["base", "absent"], |_| true),
            ranked("worse", &["base"], |_| false),
            ranked("same", &["base"], |n| n % 2 == 0),
        ];
        let plan = EvaluationPlan {
            metrics: vec![Metric::Judged(10), Metric::Ndcg(10)],
            relevant_from: 1,
            seed: 1,
        };
        let evaluation = evaluate(&all, &judgements, &asked, plan);
        assert_eq!((evaluation.queries.len(), evaluation.left_out), (30, 1));
        assert_eq!(evaluation.configurations[0].means[1].mean, 0.5);
        let verdicts: Vec<Verdict> = evaluation.verdicts().map(Comparison::verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Helps, Verdict::Hurts, Verdict::NoDifference]
        );
        let better = evaluation.verdicts().next().unwrap();
        assert_eq!(better.wins_losses_ties(), (15, 0, 15));
        let [won, lost] = better.extremes(&evaluation.queries, 2);
        assert_eq!((won, lost.len()), (vec![("q1", 1.0), ("q3", 1.0)], 0));
        assert!(
            better
                .sentence()
                .starts_with("better is better than base (nDCG@10 +0.500")
        );
        assert_eq!(evaluation.primary(), Some((1, Metric::Ndcg(10))));
    }
}
