//! Throughput of pairs: the pool against raw loops over ONNX Runtime, in one run on the same cores, to be read as ratios.
//!
//! `cargo bench --all-features --bench cross_encoder [-- SECONDS]`; needs `make setup`. The raw loops (one
//! session over all cores, one a core) get their pairs tokenised and every batch size; the best counts. On a busy machine compare rounds, not runs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ort::environment::Environment;
use ort::session::Session;
use ort::value::TensorRef;
use ragbus::adapters::onnx::{InferenceConfig, InferencePool, ModelFolder, OnnxRuntime};
use ragbus::spi::{CrossEncoder, PairScoring, Priority};
use tokenizers::{PaddingParams, Tokenizer, TruncationParams, TruncationStrategy};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const MODEL: &str = "minilm-pair";
const QUERY: &str = "how is the lift coefficient of a slender wing measured";
/// The argument of the child that runs the raw loop.
const RAW: &str = "--raw-loop";
const PAIRS: usize = 110;
const BATCHES: [usize; 6] = [1, 2, 4, 8, 16, 32];
const ROUNDS: usize = 3;

/// Deciles of abstract lengths in tokens: what a corpus of short scientific texts looks like.
const MIXED: [usize; 11] = [49, 74, 98, 118, 138, 159, 186, 218, 240, 240, 240];

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ragbus");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments.iter().find_map(|arg| arg.parse().ok());
    let time = Duration::from_secs_f64(seconds.unwrap_or(4.0));
    let threads = std::thread::available_parallelism()?.get();
    if let Some(at) = arguments.iter().position(|arg| arg == RAW) {
        let sessions = arguments.get(at + 2).ok_or("no number of sessions")?;
        return raw(&root, sessions.parse()?, threads, time);
    }
    let runtime = OnnxRuntime::load(&root.join("lib/libonnxruntime.so"))?;
    let folder = ModelFolder::open(&root.join("models"), MODEL)?;
    let config = InferenceConfig {
        threads: Some(threads),
        ..InferenceConfig::default()
    };
    let pool = InferencePool::start(&runtime, &config, vec![folder])?;
    let tokio = tokio::runtime::Runtime::new()?;
    let documents = documents();
    println!("{threads} threads, {PAIRS} pairs of mixed lengths");
    println!("pairs/s: one session (batch)  a session a thread (batch)  pool  pool / each");
    for _ in 0..ROUNDS {
        let (one, one_batch) = raw_in_child(time, 1)?;
        let (many, many_batch) = raw_in_child(time, threads)?;
        let pool = tokio.block_on(measure(&pool, &documents, time))?;
        println!(
            "{one:20.1} ({one_batch:2}) {many:24.1} ({many_batch:2}) {pool:11.1}  {:.2} {:.2}",
            pool / one,
            pool / many
        );
    }
    Ok(())
}

/// The best rate and its batch size. In a process of its own: there is one ONNX Runtime environment a process, and the
/// pool keeps its to itself.
fn raw_in_child(time: Duration, sessions: usize) -> Result<(f64, usize)> {
    let mut child = Command::new(std::env::current_exe()?);
    let output = child
        .args([RAW, &time.as_secs_f64().to_string(), &sessions.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let numbers = text.trim().split_once(' ').ok_or("the raw loop failed")?;
    Ok((numbers.0.parse()?, numbers.1.parse()?))
}

/// Prints the best rate and its batch size.
fn raw(root: &Path, sessions: usize, threads: usize, time: Duration) -> Result<()> {
    let environment = ort::init_from(root.join("lib/libonnxruntime.so"))?.build()?;
    let folder = root.join("models").join(MODEL);
    let mut raw = RawLoop::load(&environment, &folder, sessions, threads, &documents())?;
    let mut best = (0.0, 0);
    for batch in BATCHES {
        let rate = raw.measure(batch, time / BATCHES.len() as u32)?;
        if rate > best.0 {
            best = (rate, batch);
        }
    }
    println!("{} {}", best.0, best.1);
    Ok(())
}

fn documents() -> Vec<String> {
    // A stride that is prime to the number of lengths mixes them.
    (0..PAIRS)
        .map(|index| "wing ".repeat(MIXED[index * 7 % MIXED.len()]))
        .collect()
}

/// Pairs a second of interactive calls that follow each other, tokenising included.
async fn measure(pool: &InferencePool, documents: &[String], time: Duration) -> Result<f64> {
    let encoder: Arc<dyn CrossEncoder> = pool.cross_encoder(MODEL)?;
    let (start, mut pairs) = (Instant::now(), 0);
    while start.elapsed() < time {
        let request = PairScoring {
            query: QUERY.to_owned(),
            documents: documents.to_vec(),
            priority: Priority::Interactive,
            deadline: None,
        };
        for score in encoder.score_pairs(request).await? {
            score?;
            pairs += 1;
        }
    }
    Ok(f64::from(pairs) / start.elapsed().as_secs_f64())
}

/// What one writes without a pool: sessions that share the cores, batches in the order of the pairs, padded to the longest.
struct RawLoop {
    sessions: Vec<Session>,
    /// By batch size, tokenised and padded.
    batches: Vec<(usize, Vec<Batch>)>,
}

/// Ids, mask and types as rows of `width`.
struct Batch {
    shape: [usize; 2],
    inputs: [Vec<i64>; 3],
}

impl RawLoop {
    fn load(
        environment: &Environment,
        folder: &Path,
        sessions: usize,
        threads: usize,
        documents: &[String],
    ) -> Result<Self> {
        let session = |_| -> Result<Session> {
            Ok(Session::builder(environment)?
                .with_intra_threads(threads / sessions)?
                .commit_from_file(folder.join("model.onnx"))?)
        };
        let tokenizer = tokenizer(folder)?;
        let batched = |size: usize| -> Result<(usize, Vec<Batch>)> {
            let batches = documents
                .chunks(size)
                .map(|documents| tokenize(&tokenizer, documents));
            Ok((size, batches.collect::<Result<_>>()?))
        };
        Ok(Self {
            sessions: (0..sessions).map(session).collect::<Result<_>>()?,
            batches: BATCHES.into_iter().map(batched).collect::<Result<_>>()?,
        })
    }

    /// Pairs a second at that batch size, over all sessions.
    fn measure(&mut self, size: usize, time: Duration) -> Result<f64> {
        let batches = self.batches.iter().find(|(other, _)| *other == size);
        let (_, batches) = batches.ok_or("no such batch size")?;
        let count = self.sessions.len();
        let rates = std::thread::scope(|scope| {
            let threads = self
                .sessions
                .iter_mut()
                .enumerate()
                .map(|(number, session)| {
                    let own = batches.iter().skip(number * batches.len() / count);
                    let own = own.chain(batches.iter().cycle());
                    scope.spawn(move || rate(session, own, time).map_err(|error| error.to_string()))
                });
            let threads: Vec<_> = threads.collect();
            let rates = threads.into_iter().map(|thread| thread.join());
            rates.collect::<std::thread::Result<Vec<_>>>()
        });
        let rates = rates.map_err(|_| "a raw loop panicked")?;
        Ok(rates
            .into_iter()
            .sum::<std::result::Result<f64, String>>()?)
    }
}

/// Pairs a second of one session.
fn rate<'a>(
    session: &mut Session,
    batches: impl Iterator<Item = &'a Batch>,
    time: Duration,
) -> Result<f64> {
    let (start, mut pairs) = (Instant::now(), 0);
    for batch in batches {
        if start.elapsed() >= time {
            break;
        }
        let [ids, mask, types] = (batch.inputs.each_ref())
            .map(|data| TensorRef::from_array_view((batch.shape, data.as_slice())));
        let inputs = ort::inputs! {
            "input_ids" => ids?, "attention_mask" => mask?, "token_type_ids" => types?
        };
        let outputs = session.run(inputs)?;
        pairs += outputs["logits"].try_extract_tensor::<f32>()?.1.len();
    }
    Ok(pairs as f64 / start.elapsed().as_secs_f64())
}

fn tokenizer(folder: &Path) -> Result<Tokenizer> {
    let open = || -> tokenizers::Result<Tokenizer> {
        let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json"))?;
        tokenizer.with_padding(Some(PaddingParams::default()));
        tokenizer.with_truncation(Some(TruncationParams {
            max_length: 256,
            strategy: TruncationStrategy::OnlySecond,
            ..TruncationParams::default()
        }))?;
        Ok(tokenizer)
    };
    open().map_err(|error| error.to_string().into())
}

fn tokenize(tokenizer: &Tokenizer, documents: &[String]) -> Result<Batch> {
    let pairs: Vec<(&str, &str)> = documents
        .iter()
        .map(|text| (QUERY, text.as_str()))
        .collect();
    let encodings = tokenizer
        .encode_batch(pairs, true)
        .map_err(|error| error.to_string())?;
    let row = |values: fn(&tokenizers::Encoding) -> &[u32]| -> Vec<i64> {
        (encodings.iter())
            .flat_map(|encoding| values(encoding).iter().map(|&value| i64::from(value)))
            .collect()
    };
    Ok(Batch {
        shape: [encodings.len(), encodings[0].len()],
        inputs: [
            row(tokenizers::Encoding::get_ids),
            row(tokenizers::Encoding::get_attention_mask),
            row(tokenizers::Encoding::get_type_ids),
        ],
    })
}
