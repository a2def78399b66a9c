//! `ragbus bench ingest`: the service against its models alone, on the same texts and cores, in one run.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;

use super::args::BenchIngestArgs;
use super::files::Source;
use super::ingest::{Report, carry_out};
use super::{context, output};
use crate::adapters::onnx::InferencePool;
use crate::app;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ingest::cut;
use crate::model::Chunking;
use crate::spi::{DenseEncoder, Priority, Role, SparseEncoder, TextEncoding, TextKind};
use crate::transport::nats::Client;
use crate::wire::v1::{self, ingest_request::Operation};

const TENANT: &str = "bench";
const CORPUS: &str = "ingest";
const WORDS: usize = 1_000;
const ROUNDS: u64 = 3;

/// English words of common length; what they mean doesn't matter to a model's speed.
const VOCABULARY: [&str; 40] = [
    "account", "answer", "battery", "bridge", "clinical", "contract", "country", "deposit",
    "doctor", "engine", "evidence", "farmer", "finance", "garden", "harbour", "history", "invoice",
    "journal", "kitchen", "ledger", "library", "machine", "market", "measure", "medicine",
    "message", "mountain", "network", "office", "patient", "payment", "pressure", "quarter",
    "railway", "report", "science", "service", "station", "transfer", "weather",
];

/// A text of so many words, always the same for the same seed; a sentence ends every dozen words.
pub(super) fn text(seed: u64, words: usize) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = String::new();
    for number in 1..=words {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(VOCABULARY[(state % VOCABULARY.len() as u64) as usize]);
        text.push_str(if number % 12 == 0 { ". " } else { " " });
    }
    text
}

pub(super) async fn run(config: &Config, args: &BenchIngestArgs) -> Result<ExitCode> {
    let tenant = context::tenant(TENANT)?;
    let (client, connection) = context::client(config, &tenant).await?;
    let configured = config.clone();
    let pool = tokio::task::spawn_blocking(move || app::load_models(&configured))
        .await
        .map_err(|e| Error::internal("loading models panicked").caused_by(e))??;
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let texts: Vec<String> = (0..args.documents as u64)
            .map(|number| text(round * 1_000_000 + number, WORDS))
            .collect();
        let chunks = chunks(config, &pool, &texts)?;
        let alone = models_alone(config, &pool, &chunks).await?;
        let service = through_service(&client, texts).await?;
        ratios.push((alone, service, chunks.len()));
    }
    pool.close().await;
    connection.close().await;
    print(args, ratios)
}

/// Cut as the service cuts; not part of the time.
fn chunks(config: &Config, pool: &InferencePool, texts: &[String]) -> Result<Vec<String>> {
    let tokens = pool.token_counter(&config.models.dense)?;
    let encoder = pool.dense(&config.models.dense)?;
    let longest = encoder.info().max_tokens - encoder.info().special_tokens;
    let mut all = Vec::new();
    for text in texts {
        let pieces = cut(
            text,
            TextKind::Plain,
            Chunking::default(),
            longest,
            &*tokens,
        )?;
        all.extend(pieces.into_iter().map(|(_, piece)| piece.to_owned()));
    }
    Ok(all)
}

async fn models_alone(
    config: &Config,
    pool: &InferencePool,
    chunks: &[String],
) -> Result<Duration> {
    let (dense, sparse) = (
        pool.dense(&config.models.dense)?,
        pool.sparse(&config.models.sparse)?,
    );
    let request = TextEncoding {
        texts: chunks.to_vec(),
        role: Role::Document,
        priority: Priority::Bulk,
        deadline: None,
    };
    let started = Instant::now();
    let (dense, sparse) = tokio::try_join!(
        dense.encode_dense(request.clone()),
        sparse.encode_sparse(request)
    )?;
    let took = started.elapsed();
    dense.into_iter().try_for_each(|d| d.map(drop))?;
    sparse.into_iter().try_for_each(|s| s.map(drop))?;
    Ok(took)
}

/// A document of plain text.
pub(super) fn source(corpus: &str, number: usize, text: String) -> Source {
    let id = format!("bench-{number}");
    let put = v1::PutDocument {
        document_id: id.clone(),
        body: Some(v1::put_document::Body::Text(text)),
        ..v1::PutDocument::default()
    };
    let operation = Some(Operation::PutDocument(put));
    let corpus = corpus.to_owned();
    Source {
        name: id,
        job: Ok(v1::IngestRequest { corpus, operation }),
    }
}

async fn through_service(client: &Client, texts: Vec<String>) -> Result<Duration> {
    let mut report = Report::new(texts.len(), false);
    let sources = texts
        .into_iter()
        .enumerate()
        .map(|(number, text)| source(CORPUS, number, text));
    let sources: Vec<_> = sources.collect();
    let started = Instant::now();
    carry_out(client, sources, &mut report).await?;
    let took = started.elapsed();
    report.finish(took)?;
    Ok(took)
}

fn print(args: &BenchIngestArgs, rounds: Vec<(Duration, Duration, usize)>) -> Result<ExitCode> {
    let mut ratios: Vec<f64> = rounds
        .iter()
        .map(|(alone, service, _)| alone.as_secs_f64() / service.as_secs_f64())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    if args.json {
        let rows: Vec<_> = rounds
            .iter()
            .map(|(alone, service, chunks)| json!({
                "chunks": chunks, "modelsAloneS": alone.as_secs_f64(), "serviceS": service.as_secs_f64(),
            }))
            .collect();
        output::json(&json!({ "rounds": rows, "medianRatio": median }))?;
    } else {
        let mut table = output::table(["round", "chunks", "models alone", "service", "ratio"]);
        for (number, (alone, service, chunks)) in (1..).zip(&rounds) {
            let ratio = alone.as_secs_f64() / service.as_secs_f64();
            table.add_row([
                number.to_string(),
                chunks.to_string(),
                format!("{:.2} s", alone.as_secs_f64()),
                format!("{:.2} s", service.as_secs_f64()),
                format!("{ratio:.3}"),
            ]);
        }
        output::line(&table.to_string())?;
        output::line(&format!(
            "median: the service ingests at {median:.3} of what its models alone can do"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
