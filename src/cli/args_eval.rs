//! Arguments of the commands that work with judged queries.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What of a BEIR document is ingested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Body {
    /// The text alone.
    Text,
    /// The title, an empty line, the text.
    TitleText,
}

/// Who cuts documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Chunks {
    /// Nobody: a chunk a document, embedded as far as the models read.
    Whole,
    /// The service, as it cuts every document.
    Service,
}

#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    /// BEIR folder: corpus.jsonl, queries.jsonl, and qrels.tsv or qrels/SPLIT.tsv.
    #[arg(
        value_name = "FOLDER",
        required_unless_present = "run",
        conflicts_with = "run"
    )]
    pub folder: Option<PathBuf>,
    /// The tenant.
    #[arg(long, value_name = "T", required_unless_present = "run")]
    pub tenant: Option<String>,
    /// The corpus.
    #[arg(long, value_name = "C", required_unless_present = "run")]
    pub corpus: Option<String>,
    /// Put the folder's documents into the corpus first, through the service.
    #[arg(long, conflicts_with = "run")]
    pub ingest: bool,
    /// What of a document is put.
    #[arg(long, value_enum, default_value = "text", value_name = "BODY")]
    pub body: Body,
    /// Who cuts documents that are put.
    #[arg(long, value_enum, default_value = "whole", value_name = "WHO")]
    pub chunking: Chunks,
    /// Configurations: names separated by commas, or a file of JSON lines {"name", "options", "baselines"}. Built in are dense,
    /// sparse, bm25, hybrid, corrective-grade, corrective-filter, reranking, corrective+reranking, expansion-template, which is
    /// also the default; and expansion-hyde, expansion-step-back, which ask a language model.
    #[arg(long, value_name = "NAMES|FILE")]
    pub configurations: Option<String>,
    /// Results asked for, in chunks.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=100))]
    pub limit: i32,
    /// Only the queries that `ragbus calibrate --split-share SHARE` (same judgements and seed) doesn't learn from.
    #[arg(long, value_name = "SHARE", value_parser = open_share, conflicts_with = "run")]
    pub held_out: Option<f64>,
    /// Requests at once; above 1, latencies are those of a loaded service.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,
    /// Time budget of a request in milliseconds.
    #[arg(long, default_value_t = 60_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout_ms: u64,
    /// TREC run files to compare by --qrels, without a service; the first is every other's baseline.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "qrels")]
    pub run: Vec<PathBuf>,
    /// Write what each configuration answered as a TREC run file into this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "run")]
    pub run_out: Option<PathBuf>,
    /// Recall is reported at these ranks.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100], value_name = "RANKS", value_parser = rank)]
    pub k: Vec<usize>,
    /// Write a report with plots to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub judged: JudgedArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Which judged queries, and how chance is seeded.
#[derive(Debug, Args)]
pub(super) struct JudgedArgs {
    /// Judgements, TREC or BEIR, instead of the folder's.
    #[arg(long, value_name = "FILE")]
    pub qrels: Option<PathBuf>,
    /// Judgements of this split: qrels/SPLIT.tsv of the folder.
    #[arg(long, default_value = "test", value_name = "SPLIT")]
    pub split: String,
    /// Only the first N judged queries.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub queries: Option<u32>,
    /// The lowest grade that is relevant; grades below it are irrelevant.
    #[arg(long, default_value_t = 1, value_name = "GRADE", value_parser = clap::value_parser!(i32).range(1..))]
    pub relevant_from: i32,
    /// Seed of resampling and splits.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
}

#[derive(Debug, Args)]
pub(super) struct CalibrateArgs {
    /// BEIR folder: queries.jsonl, and qrels.tsv or qrels/SPLIT.tsv.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    #[command(flatten)]
    pub target: super::args::CorpusArgs,
    /// Write a calibration for this corpus alone, beside the model's.
    #[arg(long)]
    pub per_corpus: bool,
    /// Share of the judged queries to calibrate on; the others are reported on.
    #[arg(long, default_value_t = 0.5, value_name = "SHARE", value_parser = open_share)]
    pub split_share: f64,
    /// Precision that CORRECT must have: the lower bound of a one-sided 90 % interval.
    #[arg(long, default_value_t = 0.8, value_name = "SHARE", value_parser = open_share)]
    pub precision: f64,
    /// The largest share of relevant pairs that may be INCORRECT.
    #[arg(long, default_value_t = 0.05, value_name = "SHARE", value_parser = share)]
    pub miss_rate: f64,
    /// Share of relevant pairs among those that will be graded. Default: as among the judged ones, which judges choose.
    #[arg(long, value_name = "SHARE", value_parser = open_share)]
    pub prevalence: Option<f64>,
    /// Relevant and irrelevant pairs needed, each.
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub min_pairs: usize,
    /// Folder of models, instead of `models.dir`.
    #[arg(long, value_name = "DIR")]
    pub model_dir: Option<PathBuf>,
    /// Write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Requests at once.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,
    /// Time budget of a request in milliseconds.
    #[arg(long, default_value_t = 60_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout_ms: u64,
    #[command(flatten)]
    pub judged: JudgedArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

fn rank(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rank) if rank > 0 => Ok(rank),
        _ => Err("must be an integer above 0".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("must be 0 to 1".to_owned()),
    }
}

fn open_share(text: &str) -> Result<f64, String> {
    match share(text) {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("must be above 0 and below 1".to_owned()),
    }
}
