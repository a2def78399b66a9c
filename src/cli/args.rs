//! Arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::args_eval::{CalibrateArgs, EvalArgs};
use super::args_feedback::FeedbackArgs;
use super::args_retention::{ForgetArgs, HoldArgs, PurgeArgs};
use super::args_tracking::{AuditArgs, QrelsArgs, StatsArgs};
use crate::config::Overrides;

/// Retrieval-augmented generation as a message-bus service.
#[derive(Debug, Parser)]
#[command(name = "ragbus", version, about)]
pub(super) struct Cli {
    /// Configuration file (TOML); `ragbus check-config` prints every key.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// NATS server, instead of `nats.url`.
    #[arg(long, global = true, value_name = "URL")]
    nats: Option<String>,
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// What the flags set.
    pub(super) fn overrides(&self) -> Overrides {
        let mut keys = Vec::new();
        if let Some(url) = &self.nats {
            keys.push(("nats.url", url.clone()));
        }
        if let Command::Worker(WorkerArgs {
            roles: Some(roles), ..
        }) = &self.command
        {
            keys.push(("worker.roles", roles.clone()));
        }
        if let Command::Models(ModelsArgs {
            command:
                ModelsCommand::Pull(PullArgs {
                    endpoint: Some(url),
                    ..
                }),
        }) = &self.command
        {
            keys.push(("models.hub_endpoint", url.clone()));
        }
        Overrides {
            file: self.config.clone(),
            keys,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the service.
    #[command(
        after_help = "Example: ragbus worker --roles ingest,retrieve --config /etc/ragbus.toml"
    )]
    Worker(WorkerArgs),
    /// Create or update streams and consumers in NATS; needs admin rights.
    #[command(
        after_help = "Examples:\n  ragbus setup --nats nats://admin@127.0.0.1:4222\n  ragbus setup --tenant acme --tenant globex"
    )]
    Setup(SetupArgs),
    /// Run everything on this machine: a NATS server, the embedded store, all roles.
    #[command(after_help = "Example: ragbus dev")]
    Dev(DevArgs),
    /// Put files, folders, or JSON lines from standard input (-), and wait for the results.
    #[command(
        after_help = "Examples:\n  ragbus ingest docs/ --tenant acme --corpus manuals\n  \
        echo '{\"documentId\":\"a\",\"text\":\"hello\"}' | ragbus ingest - --tenant acme --corpus manuals"
    )]
    Ingest(IngestArgs),
    /// Ask a question.
    #[command(
        after_help = "Examples:\n  ragbus query \"how do I rotate keys?\" --tenant acme --corpus manuals --limit 5 --explain\n  \
        ragbus query \"how do I rotate keys?\" --tenant acme --corpus manuals --corrective grade --rerank"
    )]
    Query(QueryArgs),
    /// Delete documents, or a whole corpus.
    #[command(
        after_help = "Examples:\n  ragbus delete a.txt b.txt --tenant acme --corpus manuals\n  \
        ragbus delete --whole-corpus --tenant acme --corpus manuals"
    )]
    Delete(DeleteArgs),
    /// Judge a document of a reply.
    #[command(
        after_help = "Example: ragbus feedback 01890a5d-ac96-774b-bcce-b302099a8057 a.txt RELEVANT --tenant acme"
    )]
    Feedback(FeedbackArgs),
    /// Show server, streams, backlog and workers.
    #[command(after_help = "Example: ragbus status --tenant acme")]
    Status(StatusArgs),
    /// Measure retrieval on judged queries, stage by stage; or compare TREC run files.
    #[command(
        after_help = "Examples:\n  ragbus eval scifact/ --tenant acme --corpus scifact --ingest --html report.html\n  \
        ragbus eval cranfield/ --tenant acme --corpus cranfield --configurations dense,sparse,hybrid --json\n  \
        ragbus eval --qrels qrels.txt --run baseline.run better.run"
    )]
    Eval(EvalArgs),
    /// Calibrate the cross-encoder's grades on judged queries and write that to its model.toml.
    #[command(
        after_help = "Example: ragbus calibrate scifact/ --tenant acme --corpus scifact --precision 0.9 --dry-run"
    )]
    Calibrate(CalibrateArgs),
    /// Show what retrievals of a tenant add up to: documents, questions, times, feedback.
    #[command(
        after_help = "Examples:\n  ragbus stats --tenant acme --corpus manuals --since 7d\n  \
        ragbus stats --tenant acme --corpus manuals --since 30d --html report.html\n  \
        ragbus stats --tenant acme --corpus manuals --view zero-hit --limit 100 --json"
    )]
    Stats(StatsArgs),
    /// Export retrievals for auditors in a hash chain, and check such a file.
    #[command(after_help = "Example: ragbus audit verify january.jsonl")]
    Audit(AuditArgs),
    /// Export users' judgements for evaluation.
    #[command(
        after_help = "Example: ragbus qrels export --tenant acme --corpus manuals --out judged/"
    )]
    Qrels(QrelsArgs),
    /// Compare the registry with the store: what is missing, what nothing serves.
    #[command(after_help = "Example: ragbus verify --tenant acme --corpus manuals --repair")]
    Verify(VerifyArgs),
    /// Rebuild a corpus with the models in force, while it is queried and written; waits until it is done.
    #[command(
        after_help = "Example: ragbus reindex --tenant acme --corpus manuals\n\nAdd the old model to models.previous of every worker first, so that the corpus is served meanwhile."
    )]
    Reindex(ReindexArgs),
    /// Remove retrievals that are older than a window, now.
    #[command(
        after_help = "Example: ragbus purge --older-than 90d --dry-run\n\nExpired documents and tombstones are the schedule's business (retention.schedule)."
    )]
    Purge(PurgeArgs),
    /// Legal holds: what is held is neither purged, nor expired, nor forgotten.
    #[command(
        after_help = "Example: ragbus hold add --tenant acme --corpus contracts --reason 'case 17/2026'"
    )]
    Hold(HoldArgs),
    /// Remove everything of a tenant, and print a receipt.
    #[command(
        after_help = "Example: ragbus forget --tenant acme --yes\n\nTake the tenant's right to publish away first. Needs rights to purge streams."
    )]
    Forget(ForgetArgs),
    /// Print the configuration in force, secrets redacted.
    #[command(after_help = "Example: RAGBUS__RETRIEVAL__DEPTH=200 ragbus check-config")]
    CheckConfig(JsonArgs),
    /// Pull, list or verify models.
    #[command(after_help = "Example: ragbus models pull bge-small-en-v1.5")]
    Models(ModelsArgs),
    /// Measure.
    #[command(after_help = "Example: ragbus bench retrieve --rate 40 --seconds 20")]
    Bench(BenchArgs),
}

/// Whose data.
#[derive(Debug, Args)]
pub(super) struct CorpusArgs {
    /// The tenant.
    #[arg(long, value_name = "T")]
    pub tenant: String,
    /// The corpus.
    #[arg(long, value_name = "C")]
    pub corpus: String,
}

#[derive(Debug, Args)]
pub(super) struct WorkerArgs {
    /// Roles, separated by commas, instead of `worker.roles`.
    #[arg(long, value_name = "ROLES")]
    pub roles: Option<String>,
    /// Set NATS up first (for one machine).
    #[arg(long)]
    pub setup: bool,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub target: CorpusArgs,
    /// Also remove points that nothing serves.
    #[arg(long)]
    pub repair: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReindexArgs {
    #[command(flatten)]
    pub target: CorpusArgs,
    /// Only tell how it stands.
    #[arg(long, conflicts_with_all = ["cancel", "no_wait"])]
    pub status: bool,
    /// Call it off, and drop what was built.
    #[arg(long, conflicts_with = "no_wait")]
    pub cancel: bool,
    /// Begin, and don't wait for the end.
    #[arg(long)]
    pub no_wait: bool,
    /// Print JSON: how it stands at the end.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct SetupArgs {
    /// Also create this tenant's bucket for bodies that are too large for a message; may be repeated.
    #[arg(long, value_name = "T")]
    pub tenant: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct JsonArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DevArgs {
    /// Port of the NATS server; 0 = any free one. Default: that of `nats.url`.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

#[derive(Debug, Args)]
pub(super) struct IngestArgs {
    /// Files and folders; - = JSON lines on standard input, each a PutDocument or a PutChunks.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub target: CorpusArgs,
    /// Metadata for all documents, as a JSON object.
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
    /// Print one IngestResult as JSON a line.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct QueryArgs {
    /// The question.
    #[arg(value_name = "TEXT")]
    pub text: String,
    #[command(flatten)]
    pub target: CorpusArgs,
    /// Results, 1 to 100.
    #[arg(
        long,
        default_value_t = 5,
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub limit: i32,
    /// Show each leg's score and rank.
    #[arg(long)]
    pub explain: bool,
    /// A filter, as JSON of the wire.
    #[arg(long, value_name = "JSON")]
    pub filter: Option<String>,
    /// Options, as JSON of the wire; the three flags below win.
    #[arg(long, value_name = "JSON")]
    pub options: Option<String>,
    /// Grade the chunks by the cross-encoder, or also drop the incorrect ones.
    #[arg(long, value_enum, value_name = "MODE")]
    pub corrective: Option<CorrectiveFlag>,
    /// Reorder by the cross-encoder.
    #[arg(long)]
    pub rerank: bool,
    /// Ask further queries: template, or what a language model writes.
    #[arg(long, value_enum, value_name = "STRATEGY")]
    pub expansion: Option<ExpansionFlag>,
    /// Time budget in milliseconds.
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub timeout_ms: u64,
    /// Print the RetrieveResponse as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What corrective grading does.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum CorrectiveFlag {
    Off,
    Grade,
    Filter,
}

/// How a query is expanded.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ExpansionFlag {
    None,
    Template,
    Hyde,
    StepBack,
    HydeStepBack,
}

#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    /// Document ids.
    #[arg(required_unless_present = "whole_corpus", value_name = "DOCUMENT")]
    pub documents: Vec<String>,
    #[command(flatten)]
    pub target: CorpusArgs,
    /// Delete every document of the corpus.
    #[arg(long, conflicts_with = "documents")]
    pub whole_corpus: bool,
    /// Print one IngestResult as JSON a line.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Also list this tenant's corpora.
    #[arg(long, value_name = "T")]
    pub tenant: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ModelsArgs {
    #[command(subcommand)]
    pub command: ModelsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelsCommand {
    /// The models in `models.dir`, and whether they are usable.
    #[command(after_help = "Example: ragbus models list --json")]
    List(JsonArgs),
    /// Get a model from a hub into `models.dir`: checked, and whole or not at all.
    #[command(
        after_help = "Examples:\n  ragbus models pull ms-marco-MiniLM-L-6-v2\n  \
        ragbus models pull bge-small-en-v1.5 --endpoint https://hub.example.org\n  \
        ragbus models pull my-model --manifest my-model.toml    (a model.toml with a [hub] table)"
    )]
    Pull(PullArgs),
    /// Compare the configured models with what was pulled, load them and run them once.
    #[command(after_help = "Example: ragbus models verify")]
    Verify(JsonArgs),
}

#[derive(Debug, Args)]
pub(super) struct PullArgs {
    /// A known model, or the id in the file of --manifest.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// A model.toml with a [hub] table, for models that aren't known by name.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// The hub, instead of `models.hub_endpoint`.
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// A branch, tag or commit instead of the pinned one, whose checksums then don't count.
    #[arg(long, value_name = "REV")]
    pub revision: Option<String>,
    /// What the SHA-256 of the model's graph must be.
    #[arg(long, value_name = "HEX")]
    pub sha256: Option<String>,
    /// Replace the model when it is there already.
    #[arg(long)]
    pub force: bool,
    /// Only print the model.toml that would be written.
    #[arg(long)]
    pub show_manifest: bool,
    /// Print JSON lines: what was found, and what was done.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    pub command: BenchCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// Transport overhead of retrieval: reply time minus stage times, open loop at a fixed rate, through a running worker.
    #[command(after_help = "Example: ragbus bench retrieve --rate 20 --seconds 20")]
    Retrieve(BenchRetrieveArgs),
    /// Ingest throughput through a running worker against the models alone, one after the other in one run.
    #[command(after_help = "Example: ragbus bench ingest --documents 200")]
    Ingest(BenchIngestArgs),
}

#[derive(Debug, Args)]
pub(super) struct BenchRetrieveArgs {
    /// Requests a second.
    #[arg(long, default_value_t = 20.0)]
    pub rate: f64,
    /// Seconds to measure, after two to warm up.
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct BenchIngestArgs {
    /// Documents of about 1,000 words.
    #[arg(long, default_value_t = 100)]
    pub documents: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
