//! A retriever for tests of stages and callers, in two modes: over a store, or with fixed answers.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::encoders::{HashDenseEncoder, HashSparseEncoder};
use super::{HashLexicalEncoder, MemoryVectorStore};
use crate::error::Result;
use crate::fusion::DEFAULT_RRF_K;
use crate::model::{
    CollectionSchema, Distance, Gradings, Leg, Outcome, Retrieval, RetrievalRequest,
    RetrievedChunk, SCHEMA_VERSION, StageName, StageReport,
};
use crate::retrieval::{HybridConfig, HybridParts, HybridRetriever, QueryEncoders};
use crate::spi::{
    DenseEncoder, FusionMethod, LexicalEncoder, RequestContext, Retriever, SparseEncoder,
};
use crate::tenancy::TenancyStrategy;

/// An in-memory retriever that records what it was asked.
#[derive(Debug)]
pub struct InMemoryRetriever {
    answers: Answers,
    asked: Mutex<Vec<RetrievalRequest>>,
}

#[derive(Debug)]
enum Answers {
    Store(HybridRetriever),
    Fixed(Vec<RetrievedChunk>),
}

impl InMemoryRetriever {
    /// Hybrid retrieval over a memory store, with encoders that hash words.
    pub fn over(store: Arc<MemoryVectorStore>, tenancy: TenancyStrategy) -> Self {
        let dense: Arc<dyn DenseEncoder> = Arc::new(HashDenseEncoder::new("dense-hash", 64, 256));
        let sparse: Arc<dyn SparseEncoder> = Arc::new(HashSparseEncoder::new("sparse-hash", 256));
        let schema = CollectionSchema {
            version: SCHEMA_VERSION,
            dense_model: dense.info().id.clone(),
            sparse_model: sparse.info().id.clone(),
            dimension: dense.info().dimension,
            distance: Distance::Cosine,
            lexical: HashLexicalEncoder.id().to_owned(),
        };
        let config = HybridConfig {
            legs: vec![Leg::Dense, Leg::Sparse],
            depth: 100,
            fusion: FusionMethod::Rrf { k: DEFAULT_RRF_K },
        };
        let parts = HybridParts {
            store,
            encoders: QueryEncoders {
                dense,
                sparse,
                lexical: Arc::new(HashLexicalEncoder),
            },
            tenancy,
            schema,
            config,
        };
        Self {
            answers: Answers::Store(HybridRetriever::new(parts)),
            asked: Mutex::default(),
        }
    }

    /// Always these chunks, cut to the request's limit; none = `NO_MATCH`.
    pub fn returning(chunks: Vec<RetrievedChunk>) -> Self {
        Self {
            answers: Answers::Fixed(chunks),
            asked: Mutex::default(),
        }
    }

    /// What it was asked, in order.
    pub fn asked(&self) -> Vec<RetrievalRequest> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn fixed(chunks: &[RetrievedChunk], request: &RetrievalRequest) -> Retrieval {
    let results: Vec<_> = chunks
        .iter()
        .take(request.limit as usize)
        .cloned()
        .collect();
    Retrieval {
        outcome: if results.is_empty() {
            Outcome::NoMatch
        } else {
            Outcome::Ok
        },
        gradings: Gradings::default(),
        queries: vec![request.query.clone()],
        stages: vec![StageReport {
            stage: StageName::Hybrid,
            duration: std::time::Duration::ZERO,
            inputs: 0,
            outputs: results.len() as u32,
            model_calls: 0,
        }],
        degraded: Vec::new(),
        warnings: Vec::new(),
        more: chunks.len() > request.limit as usize,
        results,
    }
}

#[async_trait]
impl Retriever for InMemoryRetriever {
    fn describe(&self) -> String {
        StageName::Hybrid.name().to_owned()
    }

    async fn retrieve(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<Retrieval> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request.clone());
        match &self.answers {
            Answers::Store(hybrid) => hybrid.retrieve(request, context).await,
            Answers::Fixed(chunks) => Ok(fixed(chunks, request)),
        }
    }
}
