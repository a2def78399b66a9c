//! Fresh corpora, points and queries for the cases. Must not know an implementation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::model::{
    Chunk, ChunkId, CollectionSchema, CorpusName, CorpusRef, Distance, DocumentId, Filter, Leg,
    Metadata, MetadataValue, SCHEMA_VERSION, SparseVector, StoredChunk, TenantId,
};
use crate::spi::{FusionMethod, HybridQuery, LegQuery, LegVector, Point, VectorStore, Vectors};
use crate::tenancy::{Placement, TenancyStrategy};

pub(super) const WIDTH: u32 = 8;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// One tenant's corpus in a store.
#[derive(Debug, Clone)]
pub struct Desk {
    /// The store.
    pub store: Arc<dyn VectorStore>,
    /// Where the corpus lives.
    pub at: Placement,
    /// How tenants share.
    pub strategy: TenancyStrategy,
}

/// A fresh corpus per strategy, both created.
pub async fn desks(store: &Arc<dyn VectorStore>) -> Vec<Desk> {
    let mut desks = Vec::new();
    for strategy in [TenancyStrategy::Separate, TenancyStrategy::Shared] {
        let desk = Desk::new(store, strategy, "acme", &fresh_name());
        desk.create().await;
        desks.push(desk);
    }
    desks
}

/// A corpus name nobody used before, across processes too: a real server may remember.
pub(super) fn fresh_name() -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("c{}-{number}", &Uuid::new_v4().simple().to_string()[..12])
}

/// The schema of every case.
pub fn schema() -> CollectionSchema {
    CollectionSchema {
        version: SCHEMA_VERSION,
        dense_model: "dense-a".into(),
        sparse_model: "sparse-a".into(),
        dimension: WIDTH,
        distance: Distance::Cosine,
        lexical: "lexical-a".into(),
    }
}

impl Desk {
    /// A corpus that isn't created yet.
    pub fn new(
        store: &Arc<dyn VectorStore>,
        strategy: TenancyStrategy,
        tenant: &str,
        corpus: &str,
    ) -> Self {
        let tenant = TenantId::mint(tenant).expect("a valid tenant");
        let corpus = CorpusRef::new(tenant, CorpusName::new(corpus).expect("a valid corpus"));
        Self {
            store: store.clone(),
            at: strategy.place(&corpus, 1),
            strategy,
        }
    }

    /// The same corpus name of another tenant.
    pub fn of(&self, tenant: &str) -> Self {
        Self::new(
            &self.store,
            self.strategy,
            tenant,
            self.at.corpus.corpus.as_str(),
        )
    }

    /// Another generation of the same corpus.
    pub fn generation(&self, generation: u32) -> Self {
        let at = self.strategy.place(&self.at.corpus, generation);
        Self { at, ..self.clone() }
    }

    /// Ensures it.
    pub async fn create(&self) {
        self.store
            .ensure(&self.at, &schema())
            .await
            .expect("ensured");
    }

    /// Upserts.
    pub async fn upsert(&self, points: Vec<Point>) {
        self.store.upsert(&self.at, points).await.expect("upserted");
    }

    /// A point of this corpus with random vectors.
    pub fn point(&self, document: &str, ordinal: u32, sequence: u64) -> Point {
        let seed = self.id(document, ordinal).0 as u64 ^ sequence;
        let mut random = SplitMix(seed);
        let dense = (0..WIDTH).map(|_| random.unit() - 0.5).collect();
        put(
            self.id(document, ordinal),
            document,
            ordinal,
            sequence,
            dense,
        )
    }

    /// The id of a chunk of this corpus.
    pub fn id(&self, document: &str, ordinal: u32) -> ChunkId {
        let corpus = &self.at.corpus;
        let name = format!("{}/{}/{document}/{ordinal}", corpus.tenant, corpus.corpus);
        ChunkId(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).as_u128())
    }

    /// The ids that a dense query with this filter finds.
    pub async fn found(&self, filter: Option<Filter>) -> Vec<ChunkId> {
        let query = HybridQuery {
            legs: vec![dense_leg(vec![1.0; WIDTH as usize], 1_000)],
            filter,
            fusion: None,
            rank_legs: true,
        };
        let answer = self.store.query(&self.at, &query).await.expect("answered");
        let mut ids: Vec<_> = answer.legs[0].iter().map(|hit| hit.stored.id).collect();
        ids.sort();
        ids
    }

    /// How many points it holds.
    pub async fn count(&self) -> u64 {
        self.store.count(&self.at).await.expect("counted")
    }
}

/// A point with a dense vector, a sparse one derived from its ordinal, and no bm25.
pub fn put(id: ChunkId, document: &str, ordinal: u32, sequence: u64, dense: Vec<f32>) -> Point {
    let content = format!("chunk {ordinal} of {document} at {sequence}");
    Point {
        stored: StoredChunk {
            id,
            document_id: document_id(document),
            sequence,
            content_hash: format!("{:064x}", id.0),
            chunk: Chunk {
                ordinal,
                content,
                span: None,
                metadata: Metadata::default(),
            },
        },
        expires_at: None,
        vectors: Vectors {
            dense,
            sparse: sparse(&[(1, 0.5), (10 + ordinal, 1.0 + ordinal as f32)]),
            bm25: SparseVector::default(),
        },
    }
}

/// A valid document id.
pub(super) fn document_id(id: &str) -> DocumentId {
    DocumentId::new(id).expect("a valid document id")
}

/// A sparse vector of (index, weight).
pub(super) fn sparse(terms: &[(u32, f32)]) -> SparseVector {
    let (indices, values) = terms.iter().copied().unzip();
    SparseVector { indices, values }
}

/// Valid metadata.
pub(super) fn metadata(entries: Vec<(&str, MetadataValue)>) -> Metadata {
    let entries: BTreeMap<_, _> = entries
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v))
        .collect();
    Metadata::new("metadata", entries).expect("valid metadata")
}

/// A dense leg.
pub(super) fn dense_leg(vector: Vec<f32>, limit: u32) -> LegQuery {
    LegQuery {
        leg: Leg::Dense,
        vector: LegVector::Dense(vector),
        limit,
        min_score: None,
    }
}

/// A sparse or lexical leg.
pub(super) fn term_leg(leg: Leg, terms: &[(u32, f32)], limit: u32) -> LegQuery {
    LegQuery {
        leg,
        vector: LegVector::Sparse(sparse(terms)),
        limit,
        min_score: None,
    }
}

/// A query for both the fused list and the legs.
pub(super) fn full(legs: Vec<LegQuery>, fusion: FusionMethod) -> HybridQuery {
    HybridQuery {
        legs,
        filter: None,
        fusion: Some(fusion),
        rank_legs: true,
    }
}

/// A small, seeded generator.
#[derive(Debug, Clone)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to, not including, `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f32 {
        (self.draw() >> 40) as f32 / (1u64 << 24) as f32
    }
}
