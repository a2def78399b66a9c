//! The hybrid vector store.
//!
//! Every call is addressed by a [`Placement`] or [`CorpusRef`], so a tenant is always named, and an implementation
//! always applies the tenant filter, whatever the tenancy strategy.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::{
    ChunkId, CollectionSchema, CorpusRef, DocumentId, Filter, Leg, SparseVector, StoredChunk,
    Timestamp,
};
use crate::tenancy::Placement;

/// The vectors of a point. An empty sparse vector is not stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vectors {
    /// Dense vector of the collection's dimension.
    pub dense: Vec<f32>,
    /// SPLADE vector.
    pub sparse: SparseVector,
    /// Lexical vector; empty until the leg is switched on.
    pub bm25: SparseVector,
}

/// A chunk with its vectors, ready to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The chunk, its document and sequence.
    pub stored: StoredChunk,
    /// When the document expires.
    pub expires_at: Option<Timestamp>,
    /// Its vectors.
    pub vectors: Vectors,
}

/// A query vector of one leg.
#[derive(Debug, Clone, PartialEq)]
pub enum LegVector {
    /// For the dense leg.
    Dense(Vec<f32>),
    /// For the sparse and lexical legs; never empty.
    Sparse(SparseVector),
}

/// One leg of a hybrid query.
#[derive(Debug, Clone, PartialEq)]
pub struct LegQuery {
    /// Which leg.
    pub leg: Leg,
    /// Its query vector.
    pub vector: LegVector,
    /// How many hits it gives at most.
    pub limit: u32,
    /// A floor on its own score, inclusive.
    pub min_score: Option<f32>,
}

/// How the store fuses legs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FusionMethod {
    /// Reciprocal rank fusion with the paper's k (rank from 1), equal weights.
    Rrf {
        /// The paper's k.
        k: u32,
    },
    /// Distribution-based score fusion.
    Dbsf,
}

/// One question to the store.
#[derive(Debug, Clone, PartialEq)]
pub struct HybridQuery {
    /// The legs, at least one.
    pub legs: Vec<LegQuery>,
    /// The caller's filter; applied at the root and in every leg, together with the tenant filter.
    pub filter: Option<Filter>,
    /// How to fuse on the store's side; `None` = don't.
    pub fusion: Option<FusionMethod>,
    /// Whether each leg's own ranking is wanted.
    pub rank_legs: bool,
}

/// A chunk with a score.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The chunk.
    pub stored: StoredChunk,
    /// The fused or the leg's own score.
    pub score: f32,
}

/// The store's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoreAnswer {
    /// Fused hits: as many as the leg limits add up to, so that ties are not cut at random. Empty without `fusion`.
    pub fused: Vec<Hit>,
    /// Each leg's own ranking in the order the store fused it, in the order of the query's legs. Empty unless `rank_legs`.
    pub legs: Vec<Vec<Hit>>,
}

/// What the store knows of a corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionInfo {
    /// The generation being served.
    pub generation: u32,
    /// What it was built with.
    pub schema: CollectionSchema,
}

/// A hybrid vector store. Errors: `DependencyFailed` when it can't be reached or fails, `Overloaded`, and those named.
#[async_trait]
pub trait VectorStore: Send + Sync + fmt::Debug {
    /// The generation and schema of a corpus, from the store itself; `None` when the corpus doesn't exist.
    async fn describe(&self, corpus: &CorpusRef) -> Result<Option<CollectionInfo>>;

    /// Creates the collection of this placement and makes it the corpus' served generation, if need be, a prepared one too. Idempotent, also in a race.
    ///
    /// # Errors
    /// `SchemaConflict` naming both values when it exists with another schema; `NotFound` when this generation was dropped
    /// (a late caller must not bring it back).
    async fn ensure(&self, at: &Placement, schema: &CollectionSchema) -> Result<()>;

    /// Creates the collection of this placement beside what is served: it can be written and read by its placement, but
    /// [`describe`](Self::describe) doesn't tell of it until it is served. Idempotent; a served generation stays served.
    ///
    /// # Errors
    /// As [`ensure`](Self::ensure).
    async fn prepare(&self, at: &Placement, schema: &CollectionSchema) -> Result<()>;

    /// Makes a prepared generation the corpus' served one. Idempotent.
    ///
    /// # Errors
    /// `NotFound` when it was never prepared, or was dropped.
    async fn serve(&self, at: &Placement) -> Result<()>;

    /// Inserts points, or replaces those whose stored sequence is ≤ the point's; others are left alone. Durable when it
    /// returns. A call that is dropped before it returns may still take effect.
    ///
    /// # Errors
    /// `NotFound` when the collection doesn't exist (it is never created here); `Internal` for vectors of a wrong width
    /// or with non-finite numbers, before anything is written.
    async fn upsert(&self, at: &Placement, points: Vec<Point>) -> Result<()>;

    /// Deletes the points of a document with a sequence < `below`. Durable when it returns. Returns how many went.
    /// A missing collection is no error.
    async fn delete_below(&self, at: &Placement, document: &DocumentId, below: u64) -> Result<u32>;

    /// Drops a generation for its tenant: the collection, or (shared) the tenant's points in it, and the corpus' entry.
    /// Its generation can't be ensured again. Idempotent.
    async fn drop_generation(&self, at: &Placement) -> Result<()>;

    /// Answers a query.
    ///
    /// # Errors
    /// `NotFound` when the collection doesn't exist.
    async fn query(&self, at: &Placement, query: &HybridQuery) -> Result<StoreAnswer>;

    /// The chunks of a document with exactly this sequence, by ordinal; none when the collection doesn't exist.
    async fn document_chunks(
        &self,
        at: &Placement,
        document: &DocumentId,
        sequence: u64,
    ) -> Result<Vec<StoredChunk>>;

    /// The stored chunks and vectors among `ids`, in any order; missing ones are left out, all of them when
    /// the collection doesn't exist.
    async fn points(&self, at: &Placement, ids: &[ChunkId]) -> Result<Vec<Point>>;

    /// How many points of the tenant the collection holds; 0 when it doesn't exist.
    async fn count(&self, at: &Placement) -> Result<u64>;

    /// The longest time after which a write whose outcome is unknown (its worker was killed, its call timed out) can still
    /// be applied. A redelivery must not start before: checked against delays and `ack_wait` at start.
    fn write_limit(&self) -> Duration;

    /// Whether the store answers.
    async fn health(&self) -> Result<()>;

    /// Makes everything durable and refuses further work. Idempotent.
    async fn close(&self) -> Result<()>;
}
