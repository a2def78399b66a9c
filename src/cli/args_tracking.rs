//! Arguments of the commands that read tracked retrievals.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::moments::moment;
use crate::model::Timestamp;

/// A view of `rag.stats.<tenant>`, or several of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StatsView {
    /// A useful choice of the others.
    Overview,
    /// Requests, outcomes, failures, degraded and zero-hit shares, feedback.
    Totals,
    /// The same in slices of time.
    Timeline,
    /// Percentiles of the whole request and of each stage.
    Latencies,
    /// Documents of replies, the most retrieved first.
    Documents,
    /// Documents that were retrieved often and judged bad.
    PoorDocuments,
    /// Documents that no reply held.
    Unretrieved,
    /// Questions, the most frequent first.
    Queries,
    /// Questions the corpus had nothing for.
    ZeroHit,
    /// Questions whose first result scores low.
    LowRelevance,
    /// Questions that led to the same documents.
    Clusters,
    /// Judgements with their questions.
    Feedback,
}

/// Kinds of score that are a confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Confidence {
    CrossEncoder,
    Cosine,
}

#[derive(Debug, Args)]
pub(super) struct StatsArgs {
    /// The tenant.
    #[arg(long, value_name = "T")]
    pub tenant: String,
    /// The corpus. Without it: every corpus that retrievals are kept of (totals, feedback and overview).
    #[arg(long, value_name = "C")]
    pub corpus: Option<String>,
    /// From this moment on: RFC 3339, or so long ago (7d, 12h). Without it: from the first retrieval that is kept.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub since: Option<Timestamp>,
    /// Up to, but not including, this moment.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub until: Option<Timestamp>,
    /// What is shown.
    #[arg(long, value_enum, default_value = "overview", value_name = "VIEW")]
    pub view: StatsView,
    /// Rows of a list, 1 to 1000.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub limit: i32,
    /// Slices of the timeline.
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=200))]
    pub slices: i32,
    /// poor-documents: the fewest replies a document was in.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub min_retrievals: Option<i32>,
    /// poor-documents: the fewest judgements.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub min_feedback: Option<i32>,
    /// poor-documents: the least share of judgements that speak against it.
    #[arg(long, value_name = "SHARE")]
    pub min_bad_share: Option<f64>,
    /// low-relevance: the kind of score; others are no confidence.
    #[arg(long, value_enum, default_value = "cross-encoder", value_name = "KIND")]
    pub score_kind: Confidence,
    /// low-relevance: the floor.
    #[arg(long, value_name = "SCORE")]
    pub below: Option<f64>,
    /// clusters: the least likeness of two questions, by the documents they share.
    #[arg(long, value_name = "SHARE")]
    pub min_similarity: Option<f64>,
    /// Print JSON: the StatsResponse of a view, or the overview as one object.
    #[arg(long)]
    pub json: bool,
    /// Write the overview with plots to this file; nothing in it comes from elsewhere.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    pub command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// Write the retrievals of a window as JSON lines in a hash chain; needs operator's rights.
    #[command(
        after_help = "Example: ragbus audit export --tenant acme --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z --out january.jsonl\n\n\
        Only a window that is over is complete: events that workers still hold, or the tracker has yet to store, come late and stand \
        where they were asked. Let some time pass after --until.\n\
        The first line says what was exported, the last one how many retrievals there are. Each line holds the hash of the line \
        before, so a line that was removed, changed, moved or cut off shows. Whoever can rewrite the whole file can make a new \
        chain: keep the last hash, which is printed, where they can't reach it. Feedback changes after the fact and is not part of it."
    )]
    Export(AuditExportArgs),
    /// Check an exported file: names the first bad line.
    #[command(after_help = "Example: ragbus audit verify january.jsonl --hash 5f0c…")]
    Verify(AuditVerifyArgs),
}

#[derive(Debug, Args)]
pub(super) struct AuditExportArgs {
    /// The tenant.
    #[arg(long, value_name = "T")]
    pub tenant: String,
    /// The corpus; without it, all of them.
    #[arg(long, value_name = "C")]
    pub corpus: Option<String>,
    /// From this moment on: RFC 3339, or so long ago (30d).
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub since: Timestamp,
    /// Up to, but not including, this moment; one that is past.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub until: Timestamp,
    /// A new file, instead of standard output. It is there when it is complete.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct AuditVerifyArgs {
    /// The file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The last hash, as the export printed it.
    #[arg(long, value_name = "HEX")]
    pub hash: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct QrelsArgs {
    #[command(subcommand)]
    pub command: QrelsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum QrelsCommand {
    /// Write users' judgements as qrels.tsv (TREC) and queries.jsonl, which `ragbus eval` and `ragbus calibrate` read.
    #[command(
        after_help = "Example:\n  ragbus qrels export --tenant acme --corpus manuals --since 90d --out judged/\n  \
        ragbus eval judged/ --tenant acme --corpus manuals\n\nOne topic a question; of several judgements on a question and a \
        document the last one counts. Gains: NOT_RELEVANT 0, PARTIALLY_RELEVANT 1, RELEVANT 2, HIGHLY_RELEVANT 3. Questions that are kept \
        as hashes can't be asked again: they are skipped and counted."
    )]
    Export(QrelsExportArgs),
}

#[derive(Debug, Args)]
pub(super) struct QrelsExportArgs {
    #[command(flatten)]
    pub target: super::args::CorpusArgs,
    /// Judgements on retrievals from this moment on: RFC 3339, or so long ago (90d).
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub since: Option<Timestamp>,
    /// Up to, but not including, this moment.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub until: Option<Timestamp>,
    /// The folder; files of the same names are replaced.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Print JSON: what was written and what was skipped.
    #[arg(long)]
    pub json: bool,
}
