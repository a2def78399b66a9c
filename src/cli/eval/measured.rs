//! What one configuration answered, reduced to what figures need: replies of a large set would not fit into memory.

use std::collections::BTreeMap;

use super::asking::Answer;
use super::configurations::Configuration;
use crate::evaluation::{Dropped, Judgements, Ranked, Scores, collapse, mean, percentile};
use crate::wire::v1::{self, corrective, grade};

/// One configuration's answers.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Measured {
    /// What was asked.
    pub configuration: Configuration,
    /// Documents with their scores by query, best first.
    pub rankings: BTreeMap<String, Vec<(String, f64)>>,
    /// Reply times in milliseconds, ascending.
    pub latencies: Vec<f64>,
    /// What stages reported.
    pub stages: Vec<Stage>,
    /// Answers in which a stage could not do all of its work, by stage.
    pub degraded: BTreeMap<String, usize>,
    /// Answers that lost results because they did not fit into a message.
    pub truncated: usize,
    /// Scores of judged chunks by kind, ascending.
    pub scores: Vec<Scores>,
    /// What filtering would drop; only of a configuration that grades and keeps everything.
    pub dropped: Option<Dropped>,
}

/// A stage's figures over all answers it was in.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::cli) struct Stage {
    /// Its name.
    pub name: String,
    /// Durations in milliseconds.
    pub durations: Vec<f64>,
    /// Texts or pairs run through a model.
    pub model_calls: u64,
}

impl Measured {
    /// Nothing answered yet.
    pub(super) fn new(configuration: Configuration) -> Self {
        let grades = configuration.options.corrective() == corrective::Mode::Grade;
        Self {
            configuration,
            rankings: BTreeMap::new(),
            latencies: Vec::new(),
            stages: Vec::new(),
            degraded: BTreeMap::new(),
            truncated: 0,
            scores: Vec::new(),
            dropped: grades.then(Dropped::default),
        }
    }

    /// Adds an answer's figures.
    pub(super) fn add(&mut self, answer: Answer, judgements: &Judgements, relevant_from: i32) {
        let relevant = |document: &str| {
            let grade = judgements.grade(&answer.query, document);
            grade.map(|grade| grade >= relevant_from)
        };
        self.latencies.push(answer.took.as_secs_f64() * 1_000.0);
        self.note_scores(&answer.response.results, relevant);
        self.note_work(&answer.response);
        let chunks = answer.response.results.into_iter();
        let documents = collapse(chunks.map(|c| (c.document_id, c.relevance_score)));
        self.rankings.insert(answer.query, documents);
    }

    /// Orders what percentiles are taken of; after the last answer.
    pub(super) fn sort(&mut self) {
        self.latencies.sort_by(f64::total_cmp);
        self.scores.iter_mut().for_each(Scores::sort);
    }

    fn note_scores(
        &mut self,
        chunks: &[v1::RetrievedChunk],
        relevant: impl Fn(&str) -> Option<bool>,
    ) {
        let graded = |chunk: &v1::RetrievedChunk| {
            !matches!(
                chunk.grade(),
                grade::Kind::Unspecified | grade::Kind::Ungraded
            )
        };
        if let Some(dropped) = &mut self.dropped {
            let wanted = chunks
                .iter()
                .filter(|c| graded(c) && relevant(&c.document_id) == Some(true));
            dropped
                .add(wanted.map(|c| (c.document_id.as_str(), c.grade() == grade::Kind::Incorrect)));
        }
        for chunk in chunks {
            let Some(relevant) = relevant(&chunk.document_id) else {
                continue;
            };
            let kind = chunk.score_kind().as_str_name();
            let index = self
                .scores
                .iter()
                .position(|s| s.kind == kind)
                .unwrap_or_else(|| {
                    self.scores.push(Scores {
                        kind: kind.to_owned(),
                        ..Scores::default()
                    });
                    self.scores.len() - 1
                });
            self.scores[index].note(chunk.relevance_score, relevant);
        }
    }

    fn note_work(&mut self, response: &v1::RetrieveResponse) {
        self.truncated += usize::from(response.truncated);
        for stage in &response.degraded {
            *self.degraded.entry(stage.clone()).or_default() += 1;
        }
        for report in &response.stages {
            let index = self
                .stages
                .iter()
                .position(|s| s.name == report.name)
                .unwrap_or_else(|| {
                    self.stages.push(Stage {
                        name: report.name.clone(),
                        ..Stage::default()
                    });
                    self.stages.len() - 1
                });
            self.stages[index].durations.push(report.duration_ms);
            self.stages[index].model_calls += u64::from(report.model_calls);
        }
    }

    /// What the evaluation compares.
    pub(super) fn ranked(&self) -> Ranked {
        let documents =
            |ranking: &[(String, f64)]| ranking.iter().map(|(d, _)| d.clone()).collect();
        Ranked {
            name: self.configuration.name.clone(),
            baselines: self.configuration.baselines.clone().unwrap_or_default(),
            rankings: self
                .rankings
                .iter()
                .map(|(q, r)| (q.clone(), documents(r)))
                .collect(),
        }
    }

    /// Reply time in milliseconds at a percentile.
    pub(in crate::cli) fn latency(&self, percent: f64) -> f64 {
        percentile(&self.latencies, percent)
    }

    /// What makes these figures less than they seem.
    pub(super) fn warnings(&self) -> Vec<String> {
        let (name, all) = (&self.configuration.name, self.latencies.len());
        let degraded = self.degraded.iter().map(|(stage, count)| {
            format!("{name}: {count} of {all} answers were degraded at {stage}; its figures are not those of the whole stage")
        });
        let truncated = (self.truncated > 0).then(|| {
            format!(
                "{name}: {} of {all} answers lost results that did not fit into a message",
                self.truncated
            )
        });
        degraded.chain(truncated).collect()
    }
}

impl Stage {
    /// Mean duration in milliseconds.
    pub(in crate::cli) fn mean_ms(&self) -> f64 {
        mean(&self.durations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn chunk(document: &str, score: f64, grade: grade::Kind) -> v1::RetrievedChunk {
        v1::RetrievedChunk {
            document_id: document.into(),
            relevance_score: score,
            score_kind: v1::score::Kind::CrossEncoder.into(),
            grade: grade.into(),
            ..v1::RetrievedChunk::default()
        }
    }

    fn answers() -> Vec<Answer> {
        use grade::Kind::{Correct, Incorrect, Ungraded};
        let stage = v1::StageReport {
            name: "corrective".into(),
            duration_ms: 4.0,
            model_calls: 3,
            ..v1::StageReport::default()
        };
        let response = v1::RetrieveResponse {
            results: vec![
                chunk("a", 0.9, Correct),
                chunk("b", 0.4, Incorrect),
                chunk("a", 0.3, Incorrect),
                chunk("c", 0.2, Ungraded),
                chunk("d", 0.1, Incorrect),
            ],
            stages: vec![stage],
            degraded: vec!["corrective".into()],
            ..v1::RetrieveResponse::default()
        };
        let answer = |query: &str, ms| Answer {
            query: query.into(),
            response: response.clone(),
            took: Duration::from_millis(ms),
        };
        vec![answer("q1", 30), answer("q2", 10)]
    }

    fn of(configuration: Configuration, judgements: &Judgements) -> Measured {
        let mut measured = Measured::new(configuration);
        for answer in answers() {
            measured.add(answer, judgements, 1);
        }
        measured.sort();
        measured
    }

    #[test]
    fn replies_are_reduced_to_documents_scores_and_drops() {
        let mut judgements = Judgements::default();
        for (document, grade) in [("a", 1), ("b", 2), ("c", 1), ("d", 0)] {
            judgements.insert("q1", document, grade);
        }
        let mut configuration = Configuration {
            name: "grade".into(),
            options: v1::RetrieveOptions::default(),
            baselines: None,
        };
        let measured = of(configuration.clone(), &judgements);
        assert_eq!(measured.dropped, None, "nothing is graded");
        configuration.options.corrective = corrective::Mode::Grade.into();
        let measured = of(configuration, &judgements);
        let documents: Vec<&str> = measured.rankings["q1"]
            .iter()
            .map(|(d, _)| d.as_str())
            .collect();
        assert_eq!(documents, ["a", "b", "c", "d"]);
        let dropped = measured.dropped.expect("graded");
        assert_eq!((dropped.chunks, dropped.chunks_dropped), (3, 2));
        assert_eq!((dropped.documents, dropped.documents_dropped), (2, 1));
        assert_eq!(measured.scores[0].relevant, [0.2, 0.3, 0.4, 0.9]);
        assert_eq!(measured.scores[0].irrelevant, [0.1], "q2 is unjudged");
        assert_eq!(
            (measured.latency(50.0), measured.latency(95.0)),
            (10.0, 30.0)
        );
        assert_eq!(
            (measured.stages[0].mean_ms(), measured.stages[0].model_calls),
            (4.0, 6)
        );
        assert!(measured.warnings()[0].contains("2 of 2 answers were degraded at corrective"));
    }
}
