//! What a request may ask of the stages, resolved against the configuration. Must not know the wire.

use super::{ExpansionOptions, ExpansionStrategy, StageName};

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
        Self {
            content: true,
            metadata: true,
        }
    }
}

/// What corrective grading does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CorrectiveMode {
    /// Nothing.
    #[default]
    Off,
    /// Attaches grades.
    Grade,
    /// Attaches grades and drops what is incorrect.
    Filter,
}

/// Which query a chunk is reranked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RerankAgainst {
    /// The caller's own.
    #[default]
    Original,
    /// The best of the queries that found the chunk.
    BestQuery,
}

/// Per-request options, every one resolved: what the caller left open is what the server is configured for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetrievalOptions {
    /// How the query is expanded.
    pub expansion: ExpansionOptions,
    /// Corrective grading.
    pub corrective: CorrectiveMode,
    /// Whether results are reranked.
    pub rerank: bool,
    /// Against what.
    pub rerank_against: RerankAgainst,
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

impl RetrievalOptions {
    /// Whether they switch a stage on; tracking is not the caller's to choose.
    pub fn wants(&self, stage: StageName) -> bool {
        match stage {
            StageName::Corrective => self.corrective != CorrectiveMode::Off,
            StageName::Expansion => self.expansion.strategy != ExpansionStrategy::None,
            StageName::Reranking => self.rerank,
            StageName::Hybrid => true,
            StageName::Tracking => false,
        }
    }
}
