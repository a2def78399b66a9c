//! A retriever for tests of stages and callers, in two modes: over a store, or with fixed answers.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{MemoryVectorStore, hash_models};
use crate::error::Result;
use crate::fusion::DEFAULT_RRF_K;
use crate::model::{
    Gradings, Leg, Outcome, Retrieval, RetrievalRequest, RetrievedChunk, StageName, StageReport,
};
use crate::retrieval::{HybridConfig, HybridParts, HybridRetriever};
use crate::spi::{FusionMethod, RequestContext, Retriever};
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
        let config = HybridConfig {
            legs: vec![Leg::Dense, Leg::Sparse],
            depth: 100,
            fusion: FusionMethod::Rrf { k: DEFAULT_RRF_K },
        };
        let parts = HybridParts {
            store,
            models: hash_models(64),
            tenancy,
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
