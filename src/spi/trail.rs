//! What a request leaves behind for tracking beside its answer: which chunks were dropped on the way and why, and how it
//! ended.
//!
//! Must not know who reads it. Without a trail in the context nothing is noted, and nothing is paid for it.

use std::sync::{Arc, Mutex, PoisonError};

use super::RequestContext;
use crate::error::ErrorKind;
use crate::model::{
    ChunkFate, QueryText, RetrievalQuality, RetrievedChunk, StageName, StageReport, TrackedChunk,
    TrackedEnd,
};

/// How the stages ended, as the outermost one saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// With an answer or with an error.
    pub end: TrackedEnd,
    /// What was graded.
    pub quality: RetrievalQuality,
    /// What each stage did.
    pub stages: Vec<StageReport>,
    /// Stages that could not do all of their work.
    pub degraded: Vec<StageName>,
    /// What the caller is told.
    pub warnings: Vec<String>,
    /// The queries that were asked.
    pub queries: Vec<QueryText>,
    /// The cross-encoder's calibration; empty when it had nothing to say.
    pub calibration: String,
    /// The chunks of the answer.
    pub returned: Vec<TrackedChunk>,
}

impl Finding {
    /// The end of a request that found nothing because it failed.
    pub fn failed(kind: ErrorKind) -> Self {
        Self {
            end: TrackedEnd::Failed(kind),
            quality: RetrievalQuality::default(),
            stages: Vec::new(),
            degraded: Vec::new(),
            warnings: Vec::new(),
            queries: Vec::new(),
            calibration: String::new(),
            returned: Vec::new(),
        }
    }
}

/// What one request leaves behind.
#[derive(Debug, Default)]
pub struct Trail {
    /// In the order they were dropped: inner stages first.
    dropped: Mutex<Vec<Vec<TrackedChunk>>>,
    finding: Mutex<Option<Finding>>,
}

impl Trail {
    /// Notes how the stages ended.
    pub fn end(&self, finding: Finding) {
        *self.finding.lock().unwrap_or_else(PoisonError::into_inner) = Some(finding);
    }

    /// How the stages ended; `None` when they were never asked.
    pub fn finding(&self) -> Option<Finding> {
        let mut finding = self.finding.lock().unwrap_or_else(PoisonError::into_inner);
        finding.take()
    }

    /// Up to `most` chunks that were dropped and are not `returned`, each once with its last fate, those of the outermost
    /// stage first: what inner stages dropped for one sub-query may have come back by another.
    pub fn dropped(&self, returned: &[TrackedChunk], most: usize) -> Vec<TrackedChunk> {
        let mut lists = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen: std::collections::HashSet<_> =
            returned.iter().map(|chunk| chunk.chunk_id).collect();
        let lists = std::mem::take(&mut *lists).into_iter().rev().flatten();
        lists
            .filter(|chunk| seen.insert(chunk.chunk_id))
            .take(most)
            .collect()
    }

    fn note(&self, chunks: Vec<TrackedChunk>) {
        if !chunks.is_empty() {
            let mut lists = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
            lists.push(chunks);
        }
    }
}

/// A chunk as it is tracked: all but its text and metadata.
pub fn tracked_chunk(chunk: &RetrievedChunk, rank: u32, fate: ChunkFate) -> TrackedChunk {
    TrackedChunk {
        chunk_id: chunk.chunk_id,
        content_hash: chunk.content_hash.clone(),
        document_id: chunk.document_id.clone(),
        document_sequence: chunk.document_sequence,
        ordinal: chunk.ordinal,
        rank,
        relevance: chunk.relevance,
        score_kind: chunk.score_kind,
        grade: chunk.grade,
        signals: chunk.signals.clone(),
        fate,
    }
}

impl RequestContext {
    /// The same with a trail.
    #[must_use]
    pub fn traced(mut self, trail: Arc<Trail>) -> Self {
        self.trail = Some(trail);
        self
    }

    /// The trail, when there is one.
    pub fn trail(&self) -> Option<&Trail> {
        self.trail.as_deref()
    }

    /// Keeps the chunks that `keep` accepts and notes the fate of the others with their places in the list.
    pub fn sift(
        &self,
        chunks: &mut Vec<RetrievedChunk>,
        fate: ChunkFate,
        mut keep: impl FnMut(&RetrievedChunk) -> bool,
    ) {
        let (mut rank, mut dropped) = (0u32, Vec::new());
        chunks.retain(|chunk| {
            rank += 1;
            let kept = keep(chunk);
            if !kept && self.trail.is_some() {
                dropped.push(tracked_chunk(chunk, rank, fate));
            }
            kept
        });
        if let Some(trail) = &self.trail {
            trail.note(dropped);
        }
    }

    /// Keeps the first `limit` chunks; the others' fate is the limit.
    pub fn cut(&self, chunks: &mut Vec<RetrievedChunk>, limit: u32) {
        let mut left = limit;
        self.sift(chunks, ChunkFate::Limit, |_| {
            let kept = left > 0;
            left = left.saturating_sub(1);
            kept
        });
    }
}
