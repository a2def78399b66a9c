//! What is kept of a retrieval: who asked what and why, how it went, which chunks were found and what became of them.
//!
//! Must not know how an event travels or where it is stored.

use std::borrow::Cow;
use std::time::Duration;

use super::{
    ChunkId, CorpusRef, DocumentId, Grade, ModelIds, Outcome, QueryText, RetrievalId,
    RetrievalQuality, ScoreKind, Signals, StageName, StageReport, TenantId, Timestamp,
};
use crate::error::{Error, ErrorKind, Result};

/// The question as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackedQuery {
    /// Its text.
    Text(String),
    /// A keyed hash in its place: equal questions are still recognised, none can be read.
    Hash(String),
}

impl TrackedQuery {
    /// The text or the hash.
    pub fn as_str(&self) -> &str {
        match self {
            TrackedQuery::Text(text) | TrackedQuery::Hash(text) => text,
        }
    }

    /// Whether it is a hash.
    pub const fn is_hash(&self) -> bool {
        matches!(self, TrackedQuery::Hash(_))
    }
}

/// How a tracked request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrackedEnd {
    /// With an answer, be it an empty one.
    Answered(Outcome),
    /// With an error.
    Failed(ErrorKind),
}

/// What became of a chunk that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChunkFate {
    /// It is in the reply.
    Returned,
    /// Graded incorrect, and filtered.
    Incorrect,
    /// Below `minRelevance`.
    BelowMinRelevance,
    /// Its document had all the chunks it may have.
    DocumentLimit,
    /// Behind the last place of the reply.
    Limit,
    /// Left out to fit the message limit.
    MessageSize,
}

/// A chunk that a retrieval found.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackedChunk {
    /// The chunk.
    pub chunk_id: ChunkId,
    /// Lower-case hexadecimal SHA-256 of its text.
    pub content_hash: String,
    /// Its document.
    pub document_id: DocumentId,
    /// The sequence of the job that wrote it.
    pub document_sequence: u64,
    /// Its position in the document, from 0.
    pub ordinal: u32,
    /// Its place in the list it was in last, from 1.
    pub rank: u32,
    /// The number that decided the place. What is no finite number is kept as NaN, and no mean counts it.
    pub relevance: f32,
    /// What that number is.
    pub score_kind: ScoreKind,
    /// The verdict on it.
    pub grade: Grade,
    /// Why it stands where it stands.
    pub signals: Signals,
    /// Returned, or dropped and why.
    pub fate: ChunkFate,
}

/// One tracked retrieval.
#[derive(Debug, Clone, PartialEq)]
pub struct RetrievalRecord {
    /// Its name.
    pub id: RetrievalId,
    /// Whose, and where it looked. The tenant is the subject's.
    pub corpus: CorpusRef,
    /// When it was asked.
    pub at: Timestamp,
    /// The caller's name for the request.
    pub request_id: String,
    /// The worker that answered.
    pub worker: String,
    /// Who asked; empty when not told.
    pub actor: String,
    /// Why; empty when not told.
    pub purpose: String,
    /// The question.
    pub query: TrackedQuery,
    /// The queries that were asked, the original first. Whoever hashes the question hashes these too, or leaves them out.
    pub queries: Vec<QueryText>,
    /// The most results wanted.
    pub limit: u32,
    /// The resolved options, filter included, as JSON text.
    pub options: String,
    /// How it ended.
    pub end: TrackedEnd,
    /// What was graded.
    pub quality: RetrievalQuality,
    /// What each stage did.
    pub stages: Vec<StageReport>,
    /// Stages that could not do all of their work.
    pub degraded: Vec<StageName>,
    /// What the caller was told.
    pub warnings: Vec<String>,
    /// The models.
    pub models: ModelIds,
    /// The cross-encoder's calibration; empty when there was none.
    pub calibration: String,
    /// From receipt to reply.
    pub duration: Duration,
    /// What was found: best first, dropped ones wherever they stood.
    pub chunks: Vec<TrackedChunk>,
}

impl RetrievalRecord {
    /// The owner.
    pub fn tenant(&self) -> &TenantId {
        &self.corpus.tenant
    }

    /// The chunks of the reply, in its order.
    pub fn returned(&self) -> impl Iterator<Item = &TrackedChunk> {
        self.chunks
            .iter()
            .filter(|chunk| chunk.fate == ChunkFate::Returned)
    }

    /// Each document of the reply once, by its best chunk: the one that stands first, since scores of different kinds
    /// don't compare.
    pub fn documents(&self) -> Vec<&TrackedChunk> {
        let mut best: Vec<&TrackedChunk> = Vec::new();
        for chunk in self.returned() {
            if best.iter().all(|b| b.document_id != chunk.document_id) {
                best.push(chunk);
            }
        }
        best
    }

    /// The record as every tracker keeps it. Postgres stores no NUL in text and SQLite no NaN as a number, and one odd
    /// record must not hold up the batch it came in: NUL becomes U+FFFD, and a score that is no finite number NaN; such a signal
    /// is left out.
    pub fn storable(&self) -> Cow<'_, Self> {
        let odd = |text: &str| text.contains('\0');
        let query = self.query.as_str();
        let texts = [query, &self.request_id, &self.worker, &self.actor];
        let more = [&self.purpose, &self.options, &self.calibration];
        let odd_chunk = |chunk: &TrackedChunk| {
            odd(&chunk.content_hash) || chunk.relevance.is_infinite() || odd_signals(&chunk.signals)
        };
        if !texts.iter().any(|text| odd(text))
            && !more.iter().any(|text| odd(text))
            && !self.chunks.iter().any(odd_chunk)
        {
            return Cow::Borrowed(self);
        }
        let mut record = self.clone();
        record.clean();
        Cow::Owned(record)
    }

    fn clean(&mut self) {
        let query = match &mut self.query {
            TrackedQuery::Text(text) | TrackedQuery::Hash(text) => text,
        };
        let texts = [query, &mut self.request_id, &mut self.worker];
        let more = [&mut self.actor, &mut self.purpose];
        let rest = [&mut self.options, &mut self.calibration];
        let hashes = self.chunks.iter_mut().map(|chunk| &mut chunk.content_hash);
        for text in texts.into_iter().chain(more).chain(rest).chain(hashes) {
            *text = text.replace('\0', "\u{fffd}");
        }
        for chunk in &mut self.chunks {
            if !chunk.relevance.is_finite() {
                chunk.relevance = f32::NAN;
            }
            let signals = &mut chunk.signals;
            for leg in [&mut signals.dense, &mut signals.sparse, &mut signals.bm25] {
                *leg = leg.filter(|leg| leg.score.is_finite());
            }
            signals.fused = signals.fused.filter(|n| n.is_finite());
            signals.cross_encoder_logit = signals.cross_encoder_logit.filter(|n| n.is_finite());
        }
    }
}

fn odd_signals(signals: &Signals) -> bool {
    let legs = [signals.dense, signals.sparse, signals.bm25];
    let legs = legs.into_iter().flatten().map(|leg| leg.score);
    let others = [signals.fused, signals.cross_encoder_logit];
    let mut all = legs.chain(others.into_iter().flatten());
    all.any(|number| !number.is_finite())
}

/// A judgement of a user on a document of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FeedbackOutcome {
    /// Of no use.
    NotRelevant,
    /// Of some use.
    PartiallyRelevant,
    /// Of use.
    Relevant,
    /// Just what was needed.
    HighlyRelevant,
}

impl FeedbackOutcome {
    /// Its gain in judgements for evaluation, 0–3.
    pub const fn gain(self) -> u32 {
        match self {
            FeedbackOutcome::NotRelevant => 0,
            FeedbackOutcome::PartiallyRelevant => 1,
            FeedbackOutcome::Relevant => 2,
            FeedbackOutcome::HighlyRelevant => 3,
        }
    }

    /// Whether it speaks against the document.
    pub const fn is_bad(self) -> bool {
        matches!(
            self,
            FeedbackOutcome::NotRelevant | FeedbackOutcome::PartiallyRelevant
        )
    }
}

/// One judgement: the last one on a (retrieval, document) counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    /// The retrieval.
    pub retrieval_id: RetrievalId,
    /// The document of its reply.
    pub document_id: DocumentId,
    /// The judgement.
    pub outcome: FeedbackOutcome,
    /// Who judged; empty when not told.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

impl Feedback {
    /// The judgement as every tracker keeps it; see [`RetrievalRecord::storable`].
    pub fn storable_actor(&self) -> String {
        self.actor.replace('\0', "\u{fffd}")
    }
}

/// What became of a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedbackReceipt {
    /// It is stored, in place of an earlier one.
    Stored,
    /// The tenant has no such retrieval: never had, not yet, or no longer.
    NoSuchRetrieval,
    /// The reply of that retrieval did not hold the document.
    NotInReply,
}

impl FeedbackReceipt {
    /// The receipt as an answer.
    ///
    /// # Errors
    /// `NotFound` without the retrieval, `InvalidField` on `documentId` without the document.
    pub fn into_result(self) -> Result<()> {
        match self {
            FeedbackReceipt::Stored => Ok(()),
            FeedbackReceipt::NoSuchRetrieval => Err(Error::new(
                ErrorKind::NotFound,
                "there is no such retrieval",
            )),
            FeedbackReceipt::NotInReply => Err(Error::invalid_field(
                "documentId",
                "was not in the reply of that retrieval",
            )),
        }
    }
}
