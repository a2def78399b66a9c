//! Throughput of the inference pool: batch budgets on equal and on mixed lengths, in one run, to be read as ratios.
//!
//! `cargo bench --bench inference [-- SECONDS]`; needs `make setup`. On a busy machine compare rounds, not runs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ragbus::adapters::onnx::{InferenceConfig, InferencePool, ModelFolder, OnnxRuntime};
use ragbus::spi::{DenseEncoder, Priority, Role, TextEncoding};

const MODEL: &str = "minilm-l6-v2";

/// Deciles of abstract lengths in tokens: what a corpus of short scientific texts looks like.
const MIXED: [usize; 11] = [49, 74, 98, 118, 138, 159, 186, 218, 250, 250, 250];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let time = Duration::from_secs_f64(seconds.unwrap_or(4.0));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ragbus");
    let runtime = OnnxRuntime::load(&root.join("lib/libonnxruntime.so"))?;
    let tokio = tokio::runtime::Runtime::new()?;
    let folder = ModelFolder::open(&root.join("models"), MODEL)?;
    let texts = [
        ("8 tokens", texts(&[6])),
        ("32 tokens", texts(&[30])),
        ("128 tokens", texts(&[126])),
        ("mixed", texts(&MIXED)),
    ];
    println!("threads  budget  texts        tokens/s  padding  texts/call  ms/call");
    for round in 0..2 {
        for (threads, budget) in [1, 2]
            .into_iter()
            .flat_map(|t| [1, 128, 256, 512, 1024, 2048].map(|b| (t, b)))
        {
            if threads == 2 && budget < 256 {
                continue;
            }
            for (name, texts) in &texts {
                let config = InferenceConfig {
                    threads: Some(threads),
                    batch_tokens: budget,
                    ..InferenceConfig::default()
                };
                let pool = InferencePool::start(&runtime, &config, vec![folder.clone()])?;
                let rate = tokio.block_on(measure(&pool, texts, time))?;
                println!("{threads:7}  {budget:6}  {name:10}  {rate}  (round {round})");
            }
        }
    }
    Ok(())
}

fn texts(lengths: &[usize]) -> Vec<String> {
    // A stride that is prime to the number of lengths mixes them.
    (0..220)
        .map(|index| "wing ".repeat(lengths[index * 7 % lengths.len()]))
        .collect()
}

/// Keeps the bulk queue full for that long.
async fn measure(
    pool: &InferencePool,
    texts: &[String],
    time: Duration,
) -> ragbus::error::Result<String> {
    let encoder = pool.dense(MODEL)?;
    let start = Instant::now();
    let callers = (0..2).map(|_| {
        let (encoder, texts) = (Arc::clone(&encoder), texts.to_vec());
        tokio::spawn(async move {
            while start.elapsed() < time {
                let request = TextEncoding {
                    texts: texts.clone(),
                    role: Role::Document,
                    priority: Priority::Bulk,
                    deadline: Some(start + time),
                };
                if encoder.encode_dense(request).await.is_err() {
                    return;
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        let _ = caller.await;
    }
    let elapsed = start.elapsed().as_secs_f64();
    let stats = pool.stats();
    let stats = &stats.models[0];
    Ok(format!(
        "{:9.0}  {:6.1}%  {:10.1}  {:7.1}",
        stats.tokens as f64 / elapsed,
        (stats.padded_tokens as f64 / stats.tokens as f64 - 1.0) * 100.0,
        stats.texts as f64 / stats.batches as f64,
        stats.busy.as_secs_f64() * 1e3 / stats.batches as f64,
    ))
}
