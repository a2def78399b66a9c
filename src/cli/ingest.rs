//! `ragbus ingest`: publishes, waits for the results, and says what failed and why.

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use indicatif::{ProgressBar, ProgressStyle};

use super::args::IngestArgs;
use super::files::{Source, Target, sources};
use super::{context, output};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::{IngestResult, IngestStatus};
use crate::transport::nats::{Client, Reply};
use crate::wire::{ingest_result, job_result, v1};

const PUBLISHERS: usize = 16;
/// Without any result for so long, results are looked up: a message may have been lost on the way.
const QUIET: Duration = Duration::from_secs(5);
const TELL_PROGRESS: Duration = Duration::from_secs(5);
const TELL_QUIET: Duration = Duration::from_secs(60);
/// Without any news for so long, waiting ends.
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) async fn run(config: &Config, args: &IngestArgs) -> Result<ExitCode> {
    let tenant = context::tenant(&args.target.tenant)?;
    let target = Target {
        corpus: context::corpus(&args.target)?.as_str().to_owned(),
        metadata: args.metadata.as_deref().map(metadata).transpose()?,
    };
    let mut all = Vec::new();
    for path in &args.paths {
        all.extend(sources(path, &target)?);
    }
    let (client, connection) = context::client(config, &tenant).await?;
    let started = Instant::now();
    let mut report = Report::new(all.len(), args.json);
    carry_out(&client, all, &mut report).await?;
    connection.close().await;
    report.finish(started.elapsed())
}

fn metadata(text: &str) -> Result<pbjson_types::Struct> {
    serde_json::from_str(text)
        .map_err(|e| Error::invalid_field("--metadata", "must be a JSON object").caused_by(e))
}

/// Publishes jobs and collects their results into the report.
pub(super) async fn carry_out(
    client: &Client,
    sources: impl IntoIterator<Item = Source>,
    report: &mut Report,
) -> Result<()> {
    let mut results = client.results().await?;
    let mut waiting: HashMap<String, String> = HashMap::new();
    // A result may come before its publisher hears that the stream has the job.
    let mut early: HashMap<String, IngestResult> = HashMap::new();
    let published = stream::iter(sources)
        .map(|source| async move {
            let outcome = match source.job {
                Ok(job) => client.publish(&job).await,
                Err(error) => Err(error),
            };
            (source.name, outcome)
        })
        .buffer_unordered(PUBLISHERS);
    let mut published = std::pin::pin!(published.fuse());
    let mut last_news = Instant::now();
    let mut look = tokio::time::interval(QUIET);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some((name, outcome)) = published.next() => match outcome {
                Ok(receipt) => match early.remove(receipt.job_id.as_str()) {
                    Some(result) => report.ended(&name, &result)?,
                    None => {
                        last_news = Instant::now();
                        waiting.insert(receipt.job_id.as_str().to_owned(), name);
                    }
                },
                Err(error) => report.failed(&name, &error.chain()),
            },
            // Results of other callers of this tenant come too.
            Some(result) = results.next() => match waiting.remove(&result.job_id) {
                Some(name) => {
                    last_news = Instant::now();
                    report.ended(&name, &result)?;
                }
                None if !published.is_done() => { early.insert(result.job_id.clone(), result); }
                None => {}
            },
            _ = look.tick() => {
                if last_news.elapsed() >= QUIET && looked_up(client, &mut waiting, report).await? {
                    last_news = Instant::now();
                }
                report.quiet(last_news.elapsed(), client.backlog_is_full());
            }
            else => break,
        }
        if waiting.is_empty() && published.is_done() {
            break;
        }
        if last_news.elapsed() > PATIENCE {
            waiting.drain().for_each(|(job, name)| {
                report.failed(&name, &format!("no result yet of job {job}"))
            });
            if !published.is_done() {
                report.failed("the rest", "the tenant's backlog stays full (10077)");
            }
            break;
        }
    }
    Ok(())
}

/// Asks the catalog for results that did not arrive. Returns whether there was one.
async fn looked_up(
    client: &Client,
    waiting: &mut HashMap<String, String>,
    report: &mut Report,
) -> Result<bool> {
    const AT_ONCE: usize = 50;
    let jobs: Vec<String> = waiting.keys().take(AT_ONCE).cloned().collect();
    let mut any = false;
    for job_id in jobs {
        let question = v1::CatalogRequest {
            question: Some(v1::catalog_request::Question::GetJob(v1::GetJob {
                job_id: job_id.clone(),
            })),
        };
        let Ok(Reply::Answer(v1::CatalogResponse { job: Some(job), .. })) =
            client.request("catalog", &question, context::CALL).await
        else {
            continue;
        };
        if let Some(name) = waiting.remove(&job_id) {
            report.ended(&name, &job_result(job)?)?;
            any = true;
        }
    }
    Ok(any)
}

/// What is told of single documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    /// Warnings.
    Warnings,
    /// Results as JSON lines.
    Json,
    /// Nothing: standard output is for something else.
    Nothing,
}

/// What became of each document.
pub(super) struct Report {
    bar: ProgressBar,
    show: Show,
    statuses: BTreeMap<&'static str, u64>,
    chunks: u64,
    warnings: u64,
    failures: Vec<(String, String)>,
    told_quiet: Option<Instant>,
    told_progress: Instant,
}

impl Report {
    /// For so many documents.
    pub(super) fn new(documents: usize, json: bool) -> Self {
        let show = if json { Show::Json } else { Show::Warnings };
        Self::showing(documents, show)
    }

    /// For so many documents, of which standard output hears nothing.
    pub(super) fn silent(documents: usize) -> Self {
        Self::showing(documents, Show::Nothing)
    }

    fn showing(documents: usize, show: Show) -> Self {
        let bar = ProgressBar::new(documents as u64);
        let style =
            ProgressStyle::with_template("{bar:30} {pos}/{len} documents, {elapsed} ({eta} left)");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self {
            bar,
            show,
            statuses: BTreeMap::new(),
            chunks: 0,
            warnings: 0,
            failures: Vec::new(),
            told_quiet: None,
            told_progress: Instant::now(),
        }
    }

    /// One more document: a bar on a terminal, now and then a plain line elsewhere.
    fn advance(&mut self) {
        self.bar.inc(1);
        if self.bar.is_hidden() && self.told_progress.elapsed() >= TELL_PROGRESS {
            self.told_progress = Instant::now();
            let total = self.bar.length().unwrap_or_default();
            eprintln!("{} of {total} documents", self.bar.position());
        }
    }

    fn ended(&mut self, name: &str, result: &IngestResult) -> Result<()> {
        self.advance();
        let status = status_name(result.status);
        *self.statuses.entry(status).or_default() += 1;
        self.chunks += u64::from(result.chunks);
        self.warnings += u64::from(!result.warnings.is_empty());
        if let Some(error) = &result.error {
            self.failures.push((
                name.to_owned(),
                format!("{} ({})", error.message, error.kind),
            ));
        }
        match self.show {
            Show::Json => output::json(&ingest_result(result))?,
            Show::Warnings => {
                for warning in &result.warnings {
                    self.bar.suspend(|| eprintln!("warning: {name}: {warning}"));
                }
            }
            Show::Nothing => {}
        }
        Ok(())
    }

    fn failed(&mut self, name: &str, why: &str) {
        self.advance();
        *self.statuses.entry("FAILED").or_default() += 1;
        self.failures.push((name.to_owned(), why.to_owned()));
    }

    /// Says so once a minute at most, and why, as far as that is known.
    fn quiet(&mut self, since: Duration, full: bool) {
        if since > QUIET * 2
            && self
                .told_quiet
                .is_none_or(|told| told.elapsed() > TELL_QUIET)
        {
            self.told_quiet = Some(Instant::now());
            let seconds = since.as_secs();
            let why = if full {
                "; the tenant's backlog is full (10077), so jobs wait to be published"
            } else {
                ""
            };
            let message =
                format!("no result for {seconds} s{why}: is a worker running? (`ragbus status`)");
            self.bar.suspend(|| eprintln!("{message}"));
        }
    }

    /// Documents that failed.
    pub(super) fn failures(&self) -> usize {
        self.failures.len()
    }

    /// Prints what failed and why.
    pub(super) fn tell_failures(&self) {
        for (name, why) in &self.failures {
            eprintln!("failed: {name}: {why}");
        }
    }

    /// Counts by status, chunks and time; the bar goes.
    pub(super) fn summary(&self, took: Duration) -> String {
        self.bar.finish_and_clear();
        let counts: Vec<String> = self
            .statuses
            .iter()
            .map(|(status, n)| format!("{n} {status}"))
            .collect();
        let counts = if counts.is_empty() {
            "nothing to do".to_owned()
        } else {
            counts.join(", ")
        };
        let warnings = if self.warnings > 0 {
            format!("; {} with warnings", self.warnings)
        } else {
            String::new()
        };
        format!(
            "{counts}; {} chunks in {:.1} s{warnings}",
            self.chunks,
            took.as_secs_f64()
        )
    }

    /// Prints the summary; failures make the exit code 1.
    pub(super) fn finish(self, took: Duration) -> Result<ExitCode> {
        let summary = self.summary(took);
        self.tell_failures();
        if self.show != Show::Json {
            output::line(&summary)?;
        }
        Ok(if self.failures.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}

fn status_name(status: IngestStatus) -> &'static str {
    match status {
        IngestStatus::Indexed => "INDEXED",
        IngestStatus::MetadataUpdated => "METADATA_UPDATED",
        IngestStatus::Unchanged => "UNCHANGED",
        IngestStatus::Superseded => "SUPERSEDED",
        IngestStatus::Deleted => "DELETED",
        IngestStatus::Failed => "FAILED",
    }
}
