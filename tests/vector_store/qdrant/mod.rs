//! What only the store on a server promises, on the test server with its fault switches.

use std::sync::Arc;
use std::time::Duration;

use qdrant_client::qdrant as qd;
use ragbus::adapters::qdrant::{HnswOptions, QdrantConfig, QdrantVectorStore, Quantization};
use ragbus::error::{Error, ErrorKind};
use ragbus::model::{CollectionSchema, DocumentId, Leg, SparseVector};
use ragbus::spi::{FusionMethod, HybridQuery, LegQuery, LegVector, Point, VectorStore};
use ragbus::tenancy::TenancyStrategy;
use ragbus::testing::contract::vector_store::{Desk, schema};
use tonic::Code;

use crate::qdrant_server::{Fault, QdrantServer};

mod creation;
mod faults;
mod requests;

const UPSERT: &str = "points/upsert";
const SHORTEST: Duration = Duration::from_secs(2);

fn store(server: &QdrantServer, change: impl FnOnce(&mut QdrantConfig)) -> Arc<dyn VectorStore> {
    let mut config = QdrantConfig::new(server.url());
    change(&mut config);
    Arc::new(QdrantVectorStore::new(config).expect("a store"))
}

/// A corpus that exists, and its server.
async fn corpus(strategy: TenancyStrategy) -> (QdrantServer, Desk) {
    let server = QdrantServer::start();
    let store = store(&server, |config| config.timeout = SHORTEST);
    let desk = Desk::new(&store, strategy, "acme", "docs");
    desk.create().await;
    (server, desk)
}

async fn separate() -> (QdrantServer, Desk) {
    corpus(TenancyStrategy::Separate).await
}

fn points(desk: &Desk, count: u32) -> Vec<Point> {
    (0..count)
        .map(|ordinal| desk.point("d", ordinal, 1))
        .collect()
}

fn document() -> DocumentId {
    DocumentId::new("d").expect("valid")
}

fn leg(leg: Leg, vector: LegVector) -> LegQuery {
    LegQuery {
        leg,
        vector,
        limit: 7,
        min_score: None,
    }
}

fn term(index: u32) -> LegVector {
    LegVector::Sparse(SparseVector {
        indices: vec![index],
        values: vec![1.0],
    })
}

fn hybrid(rank_legs: bool) -> HybridQuery {
    HybridQuery {
        legs: vec![
            leg(Leg::Dense, LegVector::Dense(vec![1.0; 8])),
            leg(Leg::Sparse, term(1)),
            leg(Leg::Bm25, term(2)),
        ],
        filter: None,
        fusion: Some(FusionMethod::Rrf { k: 60 }),
        rank_legs,
    }
}

fn failed<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) -> Error {
    let error = result.expect_err("refused");
    assert_eq!(error.kind(), kind, "{}", error.chain());
    assert!(!error.chain().contains("private"), "{}", error.chain());
    error
}
