//! Scores and what they mean. A number never travels without its kind.

/// One first-stage ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Leg {
    /// Dense vectors, cosine.
    Dense,
    /// Learned sparse vectors (SPLADE), dot product.
    Sparse,
    /// Lexical BM25.
    Bm25,
}

impl Leg {
    /// The name in configuration, metrics and stored vector names.
    pub const fn name(self) -> &'static str {
        match self {
            Leg::Dense => "dense",
            Leg::Sparse => "sparse",
            Leg::Bm25 => "bm25",
        }
    }

    /// The kind of this leg's own score.
    pub const fn score_kind(self) -> ScoreKind {
        match self {
            Leg::Dense => ScoreKind::Cosine,
            Leg::Sparse => ScoreKind::SparseDot,
            Leg::Bm25 => ScoreKind::Bm25,
        }
    }
}

/// What a relevance score is; depends on configuration and options, never on the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScoreKind {
    /// Cosine similarity, −1 to 1.
    Cosine,
    /// Dot product of sparse vectors, 0 upwards.
    SparseDot,
    /// BM25, 0 upwards.
    Bm25,
    /// Reciprocal rank fusion: Σ wᵢ/(k + rankᵢ); no confidence.
    Rrf,
    /// Distribution-based score fusion; no confidence.
    Dbsf,
    /// A cross-encoder's probability, 0 to 1.
    CrossEncoder,
}

/// The corrective stage's verdict on a (query, chunk) pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Grade {
    /// At or above the correct threshold.
    Correct,
    /// Between the thresholds.
    Ambiguous,
    /// At or below the incorrect threshold.
    Incorrect,
    /// Not graded.
    #[default]
    Ungraded,
}

/// A raw model score together with what it was computed for.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The model's raw output (a logit).
    pub value: f32,
    /// The query text it was computed against.
    pub query: String,
    /// The model's id.
    pub model: String,
}

/// One leg's own score and rank (from 1) of a chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LegSignal {
    /// The leg's score.
    pub score: f32,
    /// The position in the leg's ranking, from 1.
    pub rank: u32,
}

/// Everything known about why a chunk stands where it stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signals {
    /// The dense leg's signal; only with `explain`.
    pub dense: Option<LegSignal>,
    /// The sparse leg's signal; only with `explain`.
    pub sparse: Option<LegSignal>,
    /// The lexical leg's signal; only with `explain`.
    pub bm25: Option<LegSignal>,
    /// The fused score, when legs were fused.
    pub fused: Option<f32>,
    /// The cross-encoder's raw output for the query that ranked the chunk best, when one was computed.
    pub cross_encoder_logit: Option<f32>,
}

impl Signals {
    /// Sets a leg's signal.
    pub fn set_leg(&mut self, leg: Leg, signal: LegSignal) {
        match leg {
            Leg::Dense => self.dense = Some(signal),
            Leg::Sparse => self.sparse = Some(signal),
            Leg::Bm25 => self.bm25 = Some(signal),
        }
    }
}

/// A sparse vector: ascending vocabulary indices and their positive weights, of equal length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SparseVector {
    /// Vocabulary indices, strictly ascending.
    pub indices: Vec<u32>,
    /// Weights, each finite and above 0.
    pub values: Vec<f32>,
}

impl SparseVector {
    /// Whether no term has a weight: such a vector is neither stored nor asked.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }
}
