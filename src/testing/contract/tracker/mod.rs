//! The contract of `RetrievalTracker` and `RetrievalAnalysis`: each case takes the tracker and uses tenants of its own.
//!
//! Must not know an implementation.

mod figures;
mod figures_by_chance;
mod paging;
mod purging;
mod storage;

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

use crate::error::ErrorKind;
use crate::model::{
    ChunkFate, ChunkId, CorpusName, CorpusRef, DocumentId, Feedback, FeedbackOutcome, Grade,
    LegSignal, ModelIds, Outcome, QueryText, RetrievalId, RetrievalQuality, RetrievalRecord,
    ScoreKind, Signals, StageName, StageReport, TenantId, Timestamp, TrackedChunk, TrackedEnd,
    TrackedQuery,
};
use crate::spi::{RetrievalAnalysis, RetrievalTracker};

pub use figures::{a_small_corpus_adds_up, a_small_corpus_sums_up, questions_share_documents};
pub use figures_by_chance::figures_agree_with_plain_ones;
pub use paging::{corpora_are_listed_and_time_is_told, pages_have_no_gaps};
pub use purging::{
    a_purge_goes_on_where_it_stopped, a_purge_is_strict_and_exact, a_tenant_is_forgotten,
    holds_spare_what_replies_held, inserts_and_purges_do_not_tear,
};
pub use storage::{
    a_batch_counts_once, feedback_follows_the_rules, records_come_back_whole, tenants_do_not_meet,
};

/// Both ports of one tracker.
pub trait Tracker: RetrievalTracker + RetrievalAnalysis {}
impl<T: RetrievalTracker + RetrievalAnalysis> Tracker for T {}

/// What a case takes.
pub type Tracked = Arc<dyn Tracker>;

/// A corpus of a tenant that nobody else has.
pub fn a_corpus() -> CorpusRef {
    corpus_of(&tenant(), "docs")
}

/// A retrieval as a busy service makes them: ten chunks of seven documents, signals, stages, texts of common length.
pub fn busy_record(corpus: &CorpusRef, micros: i64, number: usize) -> RetrievalRecord {
    let query = format!(
        "how is the warranty of part {} handled abroad",
        number % 5_000
    );
    let ids: Vec<String> = (0..10)
        .map(|n| format!("manuals/part-{:05}.md", (number + n % 7) % 20_000))
        .collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut record = record(corpus, micros, &query, &ids);
    record.actor = "clerk-17".into();
    record.purpose = "claim handling".into();
    record.options = r#"{"corrective":"FILTER","rerank":true,"fusion":{"k":60}}"#.into();
    record.stages = StageName::ORDER[1..]
        .iter()
        .map(|s| stage(*s, 700))
        .collect();
    for chunk in &mut record.chunks {
        chunk.signals.fused = Some(0.031);
        chunk.signals.cross_encoder_logit = Some(3.25);
    }
    record
}

fn tenant() -> TenantId {
    let name = format!("t{}", &Uuid::new_v4().simple().to_string()[..12]);
    TenantId::mint(&name).expect("valid")
}

fn corpus_of(tenant: &TenantId, name: &str) -> CorpusRef {
    CorpusRef::new(tenant.clone(), CorpusName::new(name).expect("valid"))
}

fn document(id: &str) -> DocumentId {
    DocumentId::new(id).expect("valid")
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn chunk(id: &str, rank: u32, relevance: f32, fate: ChunkFate) -> TrackedChunk {
    TrackedChunk {
        chunk_id: ChunkId(Uuid::new_v4().as_u128()),
        content_hash: "ab".repeat(32),
        document_id: document(id),
        document_sequence: 7,
        ordinal: rank,
        rank,
        relevance,
        score_kind: ScoreKind::Rrf,
        grade: Grade::Ungraded,
        signals: Signals::default(),
        fate,
    }
}

/// A retrieval whose reply held these documents, best first.
fn record(corpus: &CorpusRef, micros: i64, query: &str, documents: &[&str]) -> RetrievalRecord {
    let chunks = documents.iter().zip(1..);
    let chunks = chunks.map(|(id, rank)| chunk(id, rank, 0.5, ChunkFate::Returned));
    let outcome = if documents.is_empty() {
        Outcome::NoMatch
    } else {
        Outcome::Ok
    };
    RetrievalRecord {
        id: RetrievalId::from_u128(Uuid::now_v7().as_u128()),
        corpus: corpus.clone(),
        at: at(micros),
        request_id: "r-1".into(),
        worker: "w".into(),
        actor: String::new(),
        purpose: String::new(),
        query: TrackedQuery::Text(query.to_owned()),
        queries: vec![QueryText::original(query)],
        limit: 10,
        options: "{}".into(),
        end: TrackedEnd::Answered(outcome),
        quality: RetrievalQuality::default(),
        stages: vec![stage(StageName::Hybrid, 1_500)],
        degraded: Vec::new(),
        warnings: Vec::new(),
        models: ModelIds::default(),
        calibration: String::new(),
        duration: Duration::from_micros(2_000),
        chunks: chunks.collect(),
    }
}

fn stage(stage: StageName, micros: u64) -> StageReport {
    StageReport {
        stage,
        duration: Duration::from_micros(micros),
        inputs: 20,
        outputs: 10,
        model_calls: 3,
    }
}

/// NaN equals nothing, but prints.
fn shown<T: std::fmt::Debug>(value: &T) -> String {
    format!("{value:?}")
}

fn judgement(record: &RetrievalRecord, id: &str, outcome: FeedbackOutcome) -> Feedback {
    Feedback {
        retrieval_id: record.id,
        document_id: document(id),
        outcome,
        actor: "judge".into(),
        at: at(99),
    }
}

fn one_of<T: Copy>(chance: &mut StdRng, all: &[T]) -> T {
    all[chance.random_range(0..all.len())]
}

/// A retrieval by chance: few questions and documents, so that much repeats.
fn random_record(chance: &mut StdRng, corpus: &CorpusRef) -> RetrievalRecord {
    let query = format!("Frage {}", chance.random_range(0..8));
    let micros = chance.random_range(0..1_000);
    let mut record = record(corpus, micros, &query, &[]);
    if chance.random_range(0..5) == 0 {
        record.query = TrackedQuery::Hash(query);
    }
    record.chunks = random_chunks(chance);
    record.end = if record.returned().next().is_some() {
        TrackedEnd::Answered(Outcome::Ok)
    } else if chance.random_range(0..3) == 0 {
        TrackedEnd::Failed(one_of(chance, &ErrorKind::ALL))
    } else {
        TrackedEnd::Answered(one_of(chance, &Outcome::ALL[1..]))
    };
    let ran = StageName::ORDER.iter().filter(|_| chance.random());
    let ran: Vec<StageName> = ran.copied().collect();
    let micros = |_: &StageName| 100;
    record.stages = ran.iter().map(|s| stage(*s, micros(s))).collect();
    for report in &mut record.stages {
        report.duration = Duration::from_micros(chance.random_range(0..50));
    }
    record.degraded = ran.into_iter().filter(|_| chance.random()).collect();
    record.duration = Duration::from_micros(chance.random_range(0..500));
    record
}

fn random_chunks(chance: &mut StdRng) -> Vec<TrackedChunk> {
    let count = chance.random_range(0..8);
    let mut chunks = Vec::new();
    for rank in 1..=count {
        let id = format!("d{}", chance.random_range(0..10));
        let score = chance.random_range(-1.0..1.0);
        let fate = one_of(chance, ChunkFate::ALL);
        let fate = one_of(chance, &[fate, ChunkFate::Returned]);
        let mut chunk = chunk(&id, rank, score, fate);
        chunk.score_kind = one_of(chance, &[ScoreKind::Cosine, ScoreKind::CrossEncoder]);
        if chance.random_range(0..10) == 0 {
            chunk.relevance = f32::NAN;
        }
        chunks.push(chunk);
    }
    chunks
}

fn seeded(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Every field filled with what is hard to keep.
fn odd_record(corpus: &CorpusRef) -> RetrievalRecord {
    let mut odd = record(
        corpus,
        -5,
        "Ölpreis 🛢️ \u{202e}\"quoted'\\",
        &["ä/ö 'x'.md", "b"],
    );
    odd.request_id = "r-\u{1f980}".into();
    odd.actor = "Zoë".into();
    odd.purpose = "§ 22 prüfung; DROP TABLE retrievals".into();
    odd.options = r#"{"filter":{"eq":{"field":"a","value":"\u0000"}}}"#.into();
    odd.queries.push(QueryText {
        text: "zero \0 inside".into(),
        expanded_text: Some("größer".into()),
        origin: crate::model::Origin::Hyde,
    });
    odd.quality = RetrievalQuality {
        correct: 1,
        ambiguous: 2,
        incorrect: 3,
        corrected: true,
    };
    odd.stages = StageName::ORDER.map(|s| stage(s, 12)).to_vec();
    odd.degraded = vec![StageName::Expansion, StageName::Corrective];
    odd.warnings = vec!["eins, zwei".into(), "\u{0}".into()];
    odd.models.dense = "minilm-l6-v2".into();
    odd.calibration = "c-1".into();
    odd.limit = u32::MAX;
    odd.duration = Duration::from_micros(u64::from(u32::MAX) * 1_000);
    let dropped = ChunkFate::ALL[1..].iter().zip(3..);
    let dropped = dropped.map(|(fate, rank)| chunk("only-dropped", rank, 0.1, *fate));
    odd.chunks.extend(dropped);
    let floats = [
        f32::MIN_POSITIVE,
        f32::MAX,
        -0.1,
        1e-45,
        0.1 + 0.2,
        f32::NAN,
    ];
    for (chunk, score) in odd.chunks.iter_mut().zip(floats) {
        chunk.relevance = score;
        chunk.document_sequence = i64::MAX as u64;
        chunk.grade = Grade::Incorrect;
        chunk.score_kind = ScoreKind::CrossEncoder;
    }
    odd.chunks[0].signals = Signals {
        dense: Some(LegSignal {
            score: 0.1,
            rank: 1,
        }),
        cross_encoder_logit: Some(-11.3),
        ..Signals::default()
    };
    odd
}
