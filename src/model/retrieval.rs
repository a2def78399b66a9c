//! A retrieval: the question, its options and the answer. Must not know the wire or a store.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    ChunkId, CorpusRef, DocumentId, Filter, Grade, Metadata, QueryText, RetrievalOptions,
    ScoreKind, Scored, Signals, Span,
};

/// A stage's name, in stack order outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StageName {
    /// Records the retrieval.
    Tracking,
    /// Reorders by cross-encoder.
    Reranking,
    /// Asks several queries.
    Expansion,
    /// Grades and fetches again.
    Corrective,
    /// Asks the store.
    Hybrid,
}

impl StageName {
    /// Every stage, outermost first: the one order.
    pub const ORDER: [StageName; 5] = [
        StageName::Tracking,
        StageName::Reranking,
        StageName::Expansion,
        StageName::Corrective,
        StageName::Hybrid,
    ];

    /// The name on the wire, in metrics and in `describe()`.
    pub const fn name(self) -> &'static str {
        match self {
            StageName::Tracking => "tracking",
            StageName::Reranking => "reranking",
            StageName::Expansion => "expansion",
            StageName::Corrective => "corrective",
            StageName::Hybrid => "hybrid",
        }
    }

    /// The stage of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ORDER.into_iter().find(|stage| stage.name() == name)
    }
}

/// A question, validated.
#[derive(Debug, Clone, PartialEq)]
pub struct RetrievalRequest {
    /// Where to look; the tenant is the subject's.
    pub corpus: CorpusRef,
    /// The query, at most 8 KiB, not blank.
    pub query: QueryText,
    /// The most results, 1–100.
    pub limit: u32,
    /// The caller's filter.
    pub filter: Option<Filter>,
    /// Options.
    pub options: RetrievalOptions,
    /// Whether each leg's signal is wanted.
    pub explain: bool,
    /// How many times its configured depth each leg goes; 1 but for a corrective second fetch.
    pub depth_factor: u32,
}

/// How a retrieval ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// There are results.
    Ok,
    /// The corpus doesn't exist.
    NoCorpus,
    /// No leg returned anything.
    NoMatch,
    /// Chunks were found; grading or `minRelevance` left none.
    NoRelevantContext,
}

/// One chunk of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct RetrievedChunk {
    /// The chunk.
    pub chunk_id: ChunkId,
    /// Its document.
    pub document_id: DocumentId,
    /// The sequence of the job that wrote it.
    pub document_sequence: u64,
    /// Its position in the document, from 0.
    pub ordinal: u32,
    /// Where it stands in the source text.
    pub span: Option<Span>,
    /// Its text.
    pub content: String,
    /// Lower-case hexadecimal SHA-256 of the text.
    pub content_hash: String,
    /// The caller's metadata.
    pub metadata: Metadata,
    /// The number that decided the position.
    pub relevance: f32,
    /// What that number is.
    pub score_kind: ScoreKind,
    /// The corrective stage's verdict.
    pub grade: Grade,
    /// Why it stands where it stands.
    pub signals: Signals,
    /// Data hand-off: a cross-encoder's score with what it was computed for, so that no stage computes it again.
    pub scored: Option<Scored>,
    /// Preserved signal: the retrieval score that a cross-encoder's replaced.
    pub vector_similarity: Option<f32>,
    /// Run-once guard: reranking has ordered the list this chunk is in.
    pub reranked: bool,
    /// Texts of the queries that found it, in the order they were asked; empty = the request's own.
    pub found_by: Vec<String>,
}

/// Counts of graded (query, chunk) pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetrievalQuality {
    /// Pairs graded correct.
    pub correct: u32,
    /// Pairs graded ambiguous.
    pub ambiguous: u32,
    /// Pairs graded incorrect.
    pub incorrect: u32,
    /// Whether a second fetch happened.
    pub corrected: bool,
}

/// The verdicts of a request, each (query text, chunk) pair once however many sub-queries met it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gradings {
    /// By pair.
    pub pairs: BTreeMap<(String, ChunkId), Grade>,
    /// Whether a second fetch happened.
    pub corrected: bool,
}

impl Gradings {
    /// Takes in the verdicts of another sub-query.
    pub fn merge(&mut self, other: Gradings) {
        self.pairs.extend(other.pairs);
        self.corrected |= other.corrected;
    }

    /// The counts.
    pub fn quality(&self) -> RetrievalQuality {
        let mut quality = RetrievalQuality {
            corrected: self.corrected,
            ..RetrievalQuality::default()
        };
        for grade in self.pairs.values() {
            match grade {
                Grade::Correct => quality.correct += 1,
                Grade::Ambiguous => quality.ambiguous += 1,
                Grade::Incorrect => quality.incorrect += 1,
                Grade::Ungraded => {}
            }
        }
        quality
    }
}

/// What one stage did.
#[derive(Debug, Clone, PartialEq)]
pub struct StageReport {
    /// The stage.
    pub stage: StageName,
    /// Its own time, inner stages excluded.
    pub duration: Duration,
    /// Chunks it got.
    pub inputs: u32,
    /// Chunks it gave.
    pub outputs: u32,
    /// Texts or pairs it ran through a model.
    pub model_calls: u32,
}

/// The answer of a retriever.
#[derive(Debug, Clone, PartialEq)]
pub struct Retrieval {
    /// How it ended.
    pub outcome: Outcome,
    /// Best first, at most the request's limit.
    pub results: Vec<RetrievedChunk>,
    /// What was graded.
    pub gradings: Gradings,
    /// The queries that were asked, the original first.
    pub queries: Vec<QueryText>,
    /// What each stage did, outermost first.
    pub stages: Vec<StageReport>,
    /// Stages that could not do all of their work.
    pub degraded: Vec<StageName>,
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// Whether the store may hold candidates beyond these results.
    pub more: bool,
}
