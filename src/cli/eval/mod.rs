//! `ragbus eval`: how good retrieval is on judged queries, stage by stage, through the running service; or of TREC run files.
//!
//! Figures are computed in `crate::evaluation`; here are the files, the service and the printing.

pub(super) mod asking;
pub(super) mod configurations;
pub(super) mod dataset;
pub(super) mod findings;
pub(super) mod measured;
mod runs;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::args::CorpusArgs;
use super::args_eval::EvalArgs;
use super::ingest::{Report, carry_out};
use super::{context, output, report};
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::evaluation::{EvaluationPlan, Metric, evaluate};
use crate::transport::nats::{Client, Reply};
use crate::wire::v1;
use asking::{Asked, Asking};
use configurations::Configuration;
use dataset::Judged;
use findings::{Fact, Findings};
use measured::Measured;

pub(super) async fn run(config: &Config, args: &EvalArgs) -> Result<ExitCode> {
    let findings = match (&args.folder, &args.tenant, &args.corpus) {
        (Some(folder), Some(tenant), Some(corpus)) => {
            let target = CorpusArgs {
                tenant: tenant.clone(),
                corpus: corpus.clone(),
            };
            through_service(config, args, folder, &target).await?
        }
        _ => runs::compare(args)?,
    };
    if findings.evaluation.queries.is_empty() {
        let problem = "leave no query with a relevant document: nothing can be measured";
        return Err(Error::invalid_field("the judgements", problem));
    }
    // Figures first: they took long, and a file may turn out unwritable.
    if args.json {
        output::json(&findings.json())?;
    } else {
        findings.print()?;
    }
    if let Some(folder) = &args.run_out {
        runs::write(folder, &findings.measured)?;
    }
    if let Some(path) = &args.html {
        std::fs::write(path, report::page(&findings)?)
            .map_err(|e| Error::invalid_field("--html", "can't be written").caused_by(e))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The measures; nDCG@10 is what verdicts go by.
fn plan(args: &EvalArgs) -> EvaluationPlan {
    let mut metrics = vec![Metric::Ndcg(10), Metric::ReciprocalRank(10)];
    let mut cuts = args.k.clone();
    cuts.sort_unstable();
    cuts.dedup();
    metrics.extend(cuts.into_iter().map(Metric::Recall));
    metrics.push(Metric::Judged(10));
    EvaluationPlan {
        metrics,
        relevant_from: args.judged.relevant_from,
        seed: args.judged.seed,
    }
}

async fn through_service(
    config: &Config,
    args: &EvalArgs,
    folder: &Path,
    target: &CorpusArgs,
) -> Result<Findings> {
    let (tenant, corpus) = (context::tenant(&target.tenant)?, context::corpus(target)?);
    let mut judged = dataset::judged(folder, &args.judged)?;
    if let Some(share) = args.held_out {
        judged.keep_held_out(share, args.judged.seed);
    }
    let (client, connection) = context::client(config, &tenant).await?;
    let info = info(&client).await?;
    let configurations =
        configurations::configurations(args.configurations.as_deref(), &info.legs)?;
    if args.ingest {
        ingest(&client, args, folder, corpus.as_str()).await?;
    }
    let asking = Asking {
        client: &client,
        corpus: corpus.as_str(),
        limit: args.limit,
        budget: Duration::from_millis(args.timeout_ms),
        concurrency: args.concurrency.into(),
    };
    let (measured, skipped) = measure(&asking, configurations, &judged, args).await?;
    connection.close().await;
    let ranked: Vec<_> = measured.iter().map(Measured::ranked).collect();
    Ok(Findings {
        facts: facts(args, folder, target, &info, judged.judgements.pairs()),
        evaluation: evaluate(&ranked, &judged.judgements, &judged.ids(), plan(args)),
        warnings: warnings(&measured, &judged, args),
        measured,
        skipped,
    })
}

/// Asks every query in every configuration; those that the service lacks a part for come back with its reason.
async fn measure(
    asking: &Asking<'_>,
    configurations: Vec<Configuration>,
    judged: &Judged,
    args: &EvalArgs,
) -> Result<(Vec<Measured>, Vec<(String, String)>)> {
    let (mut measured, mut skipped) = (Vec::new(), Vec::new());
    let relevant_from = args.judged.relevant_from;
    for configuration in configurations {
        eprintln!("{}: {} queries", configuration.name, judged.queries.len());
        let options = configuration.options.clone();
        let mut one = Measured::new(configuration);
        let each = |answer| one.add(answer, &judged.judgements, relevant_from);
        match asking.all(&judged.queries, &options, each).await? {
            Asked::Refused(reason) => skipped.push((one.configuration.name, reason)),
            Asked::Answered => {
                one.sort();
                measured.push(one);
            }
        }
    }
    if measured.is_empty() {
        return Err(nothing(&skipped));
    }
    Ok((measured, skipped))
}

fn warnings(measured: &[Measured], judged: &Judged, args: &EvalArgs) -> Vec<String> {
    let mut warnings: Vec<String> = measured.iter().flat_map(Measured::warnings).collect();
    if judged.unknown > 0 && args.judged.queries.is_none() {
        let unknown = judged.unknown;
        warnings.push(format!("{unknown} judged queries are not in queries.jsonl"));
    }
    warnings
}

fn nothing(skipped: &[(String, String)]) -> Error {
    let reasons: Vec<String> = skipped
        .iter()
        .map(|(name, reason)| format!("{name}: {reason}"))
        .collect();
    let problem = format!(
        "the service can do no configuration ({})",
        reasons.join("; ")
    );
    Error::new(ErrorKind::InvalidField, problem)
}

/// What the service says about itself.
pub(super) async fn info(client: &Client) -> Result<v1::Info> {
    let question = v1::CatalogRequest {
        question: Some(v1::catalog_request::Question::GetInfo(v1::GetInfo {})),
    };
    match client.request("catalog", &question, context::CALL).await? {
        Reply::Answer(v1::CatalogResponse {
            info: Some(info), ..
        }) => Ok(info),
        Reply::Answer(_) => Err(Error::internal("the service doesn't describe itself")),
        Reply::Refused(error) => Err(context::refused(&error)),
    }
}

async fn ingest(client: &Client, args: &EvalArgs, folder: &Path, corpus: &str) -> Result<()> {
    let (count, documents) = dataset::documents(folder, corpus, args.body, args.chunking)?;
    let mut report = Report::silent(count);
    let started = Instant::now();
    carry_out(client, documents, &mut report).await?;
    let failed = report.failures();
    eprintln!("{}", report.summary(started.elapsed()));
    if failed > 0 {
        report.tell_failures();
        let problem = format!("{failed} documents were not put: figures would mean nothing");
        return Err(Error::new(ErrorKind::DependencyFailed, problem));
    }
    Ok(())
}

fn facts(
    args: &EvalArgs,
    folder: &Path,
    target: &CorpusArgs,
    info: &v1::Info,
    pairs: usize,
) -> Vec<Fact> {
    let models = info.models.clone().unwrap_or_default();
    let dataset = folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    vec![
        Fact::new("dataset", "data set", dataset.unwrap_or_default()),
        Fact::new("tenant", "tenant", target.tenant.clone()),
        Fact::new("corpus", "corpus", target.corpus.clone()),
        Fact::new("judgedPairs", "judged pairs", pairs),
        Fact::new(
            "heldOut",
            "held out from calibration at",
            args.held_out.map_or(Value::Null, Value::from),
        ),
        Fact::new("limit", "chunks asked for", args.limit),
        Fact::new("concurrency", "requests at once", args.concurrency),
        Fact::new("version", "version of the service", info.version.clone()),
        Fact::new("legs", "legs", info.legs.join(", ")),
        Fact::new("denseModel", "dense model", models.dense),
        Fact::new("sparseModel", "sparse model", models.sparse),
        Fact::new("crossEncoderModel", "cross-encoder", models.cross_encoder),
    ]
}
