//! A cross-encoder and a language model that do as they are told, and chunks to try them on.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ragbus::error::{Error, ErrorKind, Result};
use ragbus::model::{
    Calibration, Calibrations, Chunk, ChunkId, CorpusName, CorpusRef, DocumentId, Grade, Metadata,
    QueryText, Retrieval, RetrievalOptions, RetrievalRequest, RetrievedChunk, ScoreKind, Signals,
    StageName, TenantId,
};
use ragbus::spi::{
    CrossEncoder, CrossEncoderInfo, Generation, PairScore, PairScoring, RequestContext, Retriever,
    TextGenerator,
};

pub const MODEL: &str = "pair-fake";

type Judge = dyn Fn(&str, &str) -> Result<f32> + Send + Sync;

/// Scores by a function of (query, document) and remembers every pair it was given.
pub struct PairModel {
    info: CrossEncoderInfo,
    judge: Box<Judge>,
    pairs: Mutex<Vec<(String, String)>>,
    whole_call: Option<ErrorKind>,
    hold: bool,
}

impl fmt::Debug for PairModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairModel")
    }
}

impl PairModel {
    /// Correct from logit 1 up, incorrect from −1 down.
    pub fn new(judge: impl Fn(&str, &str) -> Result<f32> + Send + Sync + 'static) -> Self {
        let plain = Calibration::conservative();
        let calibration = Calibration {
            id: "test".into(),
            correct: plain.probability(1.0),
            incorrect: plain.probability(-1.0),
            ..plain
        };
        Self {
            info: CrossEncoderInfo {
                id: MODEL.into(),
                max_tokens: 256,
                calibrations: Calibrations::new(calibration, BTreeMap::new()),
            },
            judge: Box::new(judge),
            pairs: Mutex::default(),
            whole_call: None,
            hold: false,
        }
    }

    /// Every logit is the number that the document ends in.
    pub fn reading() -> Self {
        Self::new(|_, document| {
            let number = document.rsplit(' ').next().unwrap_or_default();
            Ok(number.parse().expect("the document ends in a number"))
        })
    }

    pub fn uncalibrated(mut self) -> Self {
        self.info.calibrations = Calibrations::new(Calibration::conservative(), BTreeMap::new());
        self
    }

    /// Refuses every call.
    pub fn refusing(mut self, kind: ErrorKind) -> Self {
        self.whole_call = Some(kind);
        self
    }

    /// Never answers.
    pub fn holding(mut self) -> Self {
        self.hold = true;
        self
    }

    pub fn pairs(&self) -> Vec<(String, String)> {
        self.pairs.lock().expect("no panic").clone()
    }

    pub fn calls(&self) -> u32 {
        self.pairs().len() as u32
    }
}

#[async_trait]
impl CrossEncoder for PairModel {
    fn info(&self) -> &CrossEncoderInfo {
        &self.info
    }

    async fn score_pairs(&self, request: PairScoring) -> Result<Vec<Result<PairScore>>> {
        if self.hold {
            std::future::pending::<()>().await;
        }
        if let Some(kind) = self.whole_call {
            return Err(Error::new(kind, "as told"));
        }
        let scored = request.documents.iter().map(|document| {
            let pair = (request.query.clone(), document.clone());
            self.pairs.lock().expect("no panic").push(pair);
            let logit = (self.judge)(&request.query, document)?;
            Ok(PairScore {
                logit,
                tokens: 8,
                truncated: 0,
            })
        });
        Ok(scored.collect())
    }
}

/// What the language model does next.
pub enum Says {
    Text(&'static str),
    Fails,
    Never,
}

/// Answers in order, then repeats itself for ever: "something else n".
#[derive(Default)]
pub struct Writer {
    script: Mutex<VecDeque<Says>>,
    asked: Mutex<Vec<Generation>>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

impl Writer {
    pub fn saying(script: impl IntoIterator<Item = Says>) -> Self {
        Self {
            script: Mutex::new(script.into_iter().collect()),
            asked: Mutex::default(),
        }
    }

    pub fn asked(&self) -> Vec<Generation> {
        self.asked.lock().expect("no panic").clone()
    }
}

#[async_trait]
impl TextGenerator for Writer {
    fn id(&self) -> &str {
        "writer-fake"
    }

    async fn generate(&self, request: Generation) -> Result<String> {
        let words = request.instruction.split_whitespace().rev().take(6);
        let other: String = words.collect::<Vec<_>>().join(" ");
        self.asked.lock().expect("no panic").push(request);
        let next = self.script.lock().expect("no panic").pop_front();
        match next {
            Some(Says::Text(text)) => Ok(text.to_owned()),
            Some(Says::Fails) => Err(Error::dependency("as told", "because")),
            Some(Says::Never) => std::future::pending().await,
            // Another instruction, another answer.
            None => Ok(format!("river bank {other}")),
        }
    }
}

pub fn corpus() -> CorpusRef {
    CorpusRef::new(
        TenantId::mint("acme").expect("valid"),
        CorpusName::new("docs").expect("valid"),
    )
}

pub fn request(limit: u32) -> RetrievalRequest {
    RetrievalRequest {
        corpus: corpus(),
        query: QueryText::original("money loan river"),
        limit,
        filter: None,
        options: RetrievalOptions::default(),
        explain: false,
        depth_factor: 1,
    }
}

/// A chunk that hybrid retrieval found; its content ends in its logit.
pub fn chunk(number: u8, logit: f32) -> RetrievedChunk {
    let document_id = DocumentId::new(&format!("d{number}")).expect("valid");
    let chunk = Chunk {
        ordinal: 0,
        content: format!("chunk {number} of logit {logit}"),
        span: None,
        metadata: Metadata::default(),
    };
    RetrievedChunk {
        chunk_id: ragbus::ingest::chunk_id(&corpus(), &document_id, 0),
        document_id,
        document_sequence: 1,
        ordinal: chunk.ordinal,
        span: chunk.span,
        content: chunk.content,
        content_hash: String::new(),
        metadata: chunk.metadata,
        relevance: 1.0 / (60.0 + f32::from(number)),
        score_kind: ScoreKind::Rrf,
        grade: Grade::Ungraded,
        signals: Signals::default(),
        scored: None,
        vector_similarity: None,
        reranked: false,
        found_by: Vec::new(),
    }
}

/// Chunks 1, 2, … of these logits, in this order.
pub fn chunks(logits: &[f32]) -> Vec<RetrievedChunk> {
    (1u8..).zip(logits).map(|(n, l)| chunk(n, *l)).collect()
}

pub fn in_time() -> RequestContext {
    RequestContext::until(Instant::now() + Duration::from_secs(20))
}

pub async fn ask(retriever: &dyn Retriever, request: &RetrievalRequest) -> Retrieval {
    let answer = retriever.retrieve(request, &in_time()).await;
    answer.expect("answered")
}

pub fn logits(retrieval: &Retrieval) -> Vec<Option<f32>> {
    let scored = retrieval.results.iter().map(|c| c.scored.as_ref());
    scored.map(|s| s.map(|s| s.value)).collect()
}

pub fn grades(retrieval: &Retrieval) -> Vec<Grade> {
    retrieval.results.iter().map(|c| c.grade).collect()
}

pub fn ids(retrieval: &Retrieval) -> Vec<ChunkId> {
    retrieval.results.iter().map(|c| c.chunk_id).collect()
}

/// The report of a stage that ran once.
pub fn report(retrieval: &Retrieval, stage: StageName) -> ragbus::model::StageReport {
    let mut reports = retrieval.stages.iter().filter(|r| r.stage == stage);
    let report = reports.next().expect("the stage ran").clone();
    assert!(reports.next().is_none(), "{stage:?} reported twice");
    report
}
