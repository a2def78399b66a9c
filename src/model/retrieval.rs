//! A retrieval: the question, its options and the answer. Must not know the wire or a store.

use std::time::Duration;

use super::{ChunkId, CorpusRef, DocumentId, Filter, Grade, Metadata, ScoreKind, Signals, Span};

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

/// Where a query came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The caller's own.
    Original,
    /// A fixed template.
    Template,
    /// A hypothetical document.
    Hyde,
    /// An abstraction.
    StepBack,
}

/// One query text of a retrieval.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryText {
    /// What grading and the lexical legs see.
    pub text: String,
    /// What the dense leg embeds instead, when there is one.
    pub expanded_text: Option<String>,
    /// Where it came from.
    pub origin: Origin,
}

/// Weights and constant of the fusion; unset = the server's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FusionWeights {
    /// The paper's k, 1–1000.
    pub k: Option<u32>,
    /// Weight of the dense leg, 0–100.
    pub dense: Option<f32>,
    /// Weight of the sparse leg, 0–100.
    pub sparse: Option<f32>,
    /// Weight of the lexical leg, 0–100.
    pub bm25: Option<f32>,
}

/// Which optional parts of a result are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Include {
    /// The chunk's text.
    pub content: bool,
    /// The chunk's metadata.
    pub metadata: bool,
}

impl Default for Include {
    fn default() -> Self {
        Self { content: true, metadata: true }
    }
}

/// Per-request options that the stages of this build understand.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetrievalOptions {
    /// Cosine floor of the dense leg.
    pub min_dense: Option<f32>,
    /// Floor on the final score, 0–1; needs a final kind of `Cosine` or `CrossEncoder`.
    pub min_relevance: Option<f32>,
    /// Fusion weights.
    pub fusion: FusionWeights,
    /// Stages whose degradation is an error.
    pub require: Vec<StageName>,
    /// What to return.
    pub include: Include,
    /// The most chunks of one document; unset = no limit.
    pub max_chunks_per_document: Option<u32>,
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
}

/// How a retrieval ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// Counts of grades.
    pub quality: RetrievalQuality,
    /// The queries that were asked, the original first.
    pub queries: Vec<QueryText>,
    /// What each stage did, outermost first.
    pub stages: Vec<StageReport>,
    /// Stages that could not do all of their work.
    pub degraded: Vec<StageName>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}
