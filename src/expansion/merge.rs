//! Several answers to one: rank fusion over sub-queries, and what each chunk keeps of them. Pure.

use std::collections::HashMap;
use std::time::Duration;

use crate::fusion::rrf;
use crate::model::{
    ChunkId, Grade, Gradings, Origin, Outcome, QueryText, Retrieval, RetrievedChunk, ScoreKind,
    StageReport,
};

/// The weight of each query's list: 1 for the original, 1/n for each of n hypothetical documents, 1 for a broader question.
pub(super) fn weights(queries: &[QueryText]) -> Vec<f32> {
    let hypothetical = |q: &QueryText| matches!(q.origin, Origin::Hyde | Origin::Template);
    let n = queries.iter().filter(|q| hypothetical(q)).count().max(1);
    let weight = |q: &QueryText| {
        if hypothetical(q) { 1.0 / n as f32 } else { 1.0 }
    };
    queries.iter().map(weight).collect()
}

/// A sub-query with its weight and answer.
pub(super) type Answered<'a> = (&'a QueryText, f32, Retrieval);

/// Merges answers, the original's first among them if it has one. `k` is the paper's.
pub(super) fn merged(original: &str, answers: Vec<Answered<'_>>, k: u32) -> Retrieval {
    let lists: Vec<(f32, Vec<ChunkId>)> = answers
        .iter()
        .map(|(_, weight, answer)| (*weight, answer.results.iter().map(|c| c.chunk_id).collect()))
        .collect();
    let mut merged = Retrieval {
        outcome: outcome(answers.iter().map(|(_, _, answer)| answer.outcome)),
        results: Vec::new(),
        gradings: Gradings::default(),
        queries: Vec::new(),
        stages: Vec::new(),
        degraded: Vec::new(),
        warnings: Vec::new(),
        more: answers.iter().any(|(_, _, answer)| answer.more),
    };
    let mut chunks: HashMap<ChunkId, Standing> = HashMap::new();
    for (query, _, answer) in answers {
        merged.gradings.merge(answer.gradings);
        merged.degraded.extend(answer.degraded);
        merged.warnings.extend(answer.warnings);
        add_reports(&mut merged.stages, answer.stages);
        for (rank, chunk) in answer.results.into_iter().enumerate() {
            let seen = Standing::of(rank, chunk, &query.text, original);
            match chunks.remove(&seen.chunk.chunk_id) {
                Some(known) => chunks.insert(seen.chunk.chunk_id, known.joined(seen)),
                None => chunks.insert(seen.chunk.chunk_id, seen),
            };
        }
    }
    let ranked = rrf(&lists, k).into_iter();
    merged.results = ranked
        .filter_map(|(id, score)| Some(chunks.remove(&id)?.ranked(score)))
        .collect();
    merged
}

/// A chunk as one sub-query, or several, ranked it.
struct Standing {
    rank: usize,
    chunk: RetrievedChunk,
}

impl Standing {
    /// A score for another text than the original's is no score of this request.
    fn of(rank: usize, mut chunk: RetrievedChunk, query: &str, original: &str) -> Self {
        chunk.scored = chunk.scored.filter(|scored| scored.query == original);
        chunk.found_by = vec![query.to_owned()];
        Self { rank, chunk }
    }

    /// The better-ranked of two, in the newer version, with the best grade and every query that found it. `other` is of a
    /// later query.
    fn joined(self, other: Self) -> Self {
        let grade = best_grade(self.chunk.grade, other.chunk.grade);
        let mut found_by = self.chunk.found_by.clone();
        found_by.extend(other.chunk.found_by.iter().cloned());
        found_by.dedup();
        let newest = (self.chunk.document_sequence).max(other.chunk.document_sequence);
        let (mut best, rest) = if other.rank < self.rank {
            (other, self)
        } else {
            (self, other)
        };
        // A replacement in between: the newer version is what is being served.
        if best.chunk.document_sequence < newest {
            best.chunk = rest.chunk;
        } else if best.chunk.scored.is_none() && rest.chunk.document_sequence == newest {
            best.chunk.scored = rest.chunk.scored;
        }
        best.chunk.grade = grade;
        best.chunk.found_by = found_by;
        best
    }

    fn ranked(self, score: f32) -> RetrievedChunk {
        RetrievedChunk {
            relevance: score,
            score_kind: ScoreKind::Rrf,
            // In this list no cross-encoder's score stands in the place of a retrieval score.
            vector_similarity: None,
            ..self.chunk
        }
    }
}

fn best_grade(a: Grade, b: Grade) -> Grade {
    let place = |grade: Grade| match grade {
        Grade::Correct => 0,
        Grade::Ambiguous => 1,
        Grade::Incorrect => 2,
        Grade::Ungraded => 3,
    };
    if place(b) < place(a) { b } else { a }
}

/// The best any sub-query came to.
fn outcome(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    let place = |outcome: &Outcome| match outcome {
        Outcome::Ok => 0,
        Outcome::NoRelevantContext => 1,
        Outcome::NoMatch => 2,
        Outcome::NoCorpus => 3,
    };
    outcomes.min_by_key(place).unwrap_or(Outcome::NoMatch)
}

/// Counts of the same stage add up. Sub-queries ran beside each other, so of the times only those of the slowest count:
/// added up they would exceed the time that passed.
fn add_reports(all: &mut Vec<StageReport>, more: Vec<StageReport>) {
    let time = |reports: &[StageReport]| -> Duration { reports.iter().map(|r| r.duration).sum() };
    let slower = time(&more) > time(all);
    for report in more {
        match all.iter_mut().find(|known| known.stage == report.stage) {
            Some(known) => {
                known.inputs += report.inputs;
                known.outputs += report.outputs;
                known.model_calls += report.model_calls;
                if slower {
                    known.duration = report.duration;
                }
            }
            None => all.push(report),
        }
    }
}
