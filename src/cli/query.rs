//! `ragbus query`: asks, and prints ranked results a person can read.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::args::{CorrectiveFlag, ExpansionFlag, QueryArgs};
use super::snippet::snippet;
use super::{context, output};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::transport::nats::Reply;
use crate::wire::v1::{self, grade, outcome, score};

const SNIPPET: usize = 220;

pub(super) async fn run(config: &Config, args: &QueryArgs) -> Result<ExitCode> {
    let tenant = context::tenant(&args.target.tenant)?;
    let request = v1::RetrieveRequest {
        corpus: context::corpus(&args.target)?.as_str().to_owned(),
        query: args.text.clone(),
        limit: Some(args.limit),
        filter: args
            .filter
            .as_deref()
            .map(|text| json("--filter", text))
            .transpose()?,
        options: options(args)?,
        explain: Some(args.explain),
    };
    let (client, connection) = context::client(config, &tenant).await?;
    let started = Instant::now();
    let budget = Duration::from_millis(args.timeout_ms.max(1));
    let reply: Reply<v1::RetrieveResponse> = client.request("retrieve", &request, budget).await?;
    let took = started.elapsed();
    connection.close().await;
    match reply {
        Reply::Refused(error) if args.json => {
            output::json(&error)?;
            Err(context::refused(&error))
        }
        Reply::Refused(error) => Err(context::refused(&error)),
        Reply::Answer(response) if args.json => output::json(&response).map(|()| code(&response)),
        Reply::Answer(response) => print(args, &response, took).map(|()| code(&response)),
    }
}

/// The options of the JSON with those of the flags over them.
fn options(args: &QueryArgs) -> Result<Option<v1::RetrieveOptions>> {
    use v1::corrective::Mode;
    use v1::expansion_options::Strategy;
    let given: Option<v1::RetrieveOptions> = args
        .options
        .as_deref()
        .map(|text| json("--options", text))
        .transpose()?;
    let mut options = given.clone().unwrap_or_default();
    if args.rerank {
        options.rerank = Some(true);
    }
    if let Some(mode) = args.corrective {
        options.set_corrective(match mode {
            CorrectiveFlag::Off => Mode::Off,
            CorrectiveFlag::Grade => Mode::Grade,
            CorrectiveFlag::Filter => Mode::Filter,
        });
    }
    if let Some(strategy) = args.expansion {
        let expansion = options.expansion.get_or_insert_default();
        expansion.set_strategy(match strategy {
            ExpansionFlag::None => Strategy::None,
            ExpansionFlag::Template => Strategy::Template,
            ExpansionFlag::Hyde => Strategy::Hyde,
            ExpansionFlag::StepBack => Strategy::StepBack,
            ExpansionFlag::HydeStepBack => Strategy::HydeStepBack,
        });
    }
    let none = given.is_none() && options == v1::RetrieveOptions::default();
    Ok((!none).then_some(options))
}

/// A corpus that doesn't exist is most likely a typo: a script must notice.
fn code(response: &v1::RetrieveResponse) -> ExitCode {
    ExitCode::from(u8::from(response.outcome() == outcome::Kind::NoCorpus))
}

fn json<T: serde::de::DeserializeOwned>(flag: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::invalid_field(flag, "is not valid").caused_by(e))
}

fn print(args: &QueryArgs, response: &v1::RetrieveResponse, took: Duration) -> Result<()> {
    let corpus = &args.target.corpus;
    match response.outcome() {
        outcome::Kind::Ok => table(args, response)?,
        outcome::Kind::NoCorpus => output::line(&format!("corpus {corpus} doesn't exist"))?,
        outcome::Kind::NoMatch => output::line("nothing matches")?,
        outcome::Kind::NoRelevantContext => {
            output::line("chunks were found, none of them relevant enough")?
        }
        outcome::Kind::Unspecified => {}
    }
    for warning in &response.warnings {
        output::line(&format!("warning: {warning}"))?;
    }
    if let Some(quality) = response.quality.filter(|quality| quality.retrieved > 0) {
        output::line(&format!(
            "graded {}: {} correct, {} ambiguous, {} incorrect{}",
            quality.retrieved,
            quality.correct,
            quality.ambiguous,
            quality.incorrect,
            if quality.corrected {
                "; fetched once more"
            } else {
                ""
            }
        ))?;
    }
    if !response.degraded.is_empty() {
        output::line(&format!("degraded: {}", response.degraded.join(", ")))?;
    }
    let stages: Vec<String> = response
        .stages
        .iter()
        .map(|s| {
            format!(
                "{} {:.1} ms ({} model calls)",
                s.name, s.duration_ms, s.model_calls
            )
        })
        .collect();
    let all = took.as_secs_f64() * 1_000.0;
    output::line(&format!(
        "{all:.1} ms in all: {}; retrieval {}",
        stages.join(", "),
        response.retrieval_id
    ))
}

fn table(args: &QueryArgs, response: &v1::RetrieveResponse) -> Result<()> {
    let marks = output::terminal().then_some(("\u{1b}[1m", "\u{1b}[0m"));
    let mut table = output::table(["#", "score", "document", "text"]);
    for (rank, chunk) in (1..).zip(&response.results) {
        let mut score = format!("{:.4}\n{}", chunk.relevance_score, kind(chunk.score_kind()));
        if chunk.grade() != grade::Kind::Ungraded {
            score.push('\n');
            score.push_str(chunk.grade().as_str_name());
        }
        let mut text = snippet(&chunk.content, &args.text, SNIPPET, marks);
        if args.explain {
            text.push('\n');
            text.push_str(&explained(chunk));
        }
        let document = format!("{}\n(chunk {})", chunk.document_id, chunk.ordinal);
        table.add_row([rank.to_string(), score, document, text]);
    }
    output::line(&table.to_string())
}

fn kind(kind: score::Kind) -> &'static str {
    kind.as_str_name()
}

fn explained(chunk: &v1::RetrievedChunk) -> String {
    let signals = chunk.signals.unwrap_or_default();
    let leg = |name: &str, signal: Option<v1::LegSignal>| {
        signal.map(|s| format!("{name} {:.3} (rank {})", s.score, s.rank))
    };
    let parts = [
        leg("dense", signals.dense),
        leg("sparse", signals.sparse),
        leg("bm25", signals.bm25),
        signals.fused.map(|fused| format!("fused {fused:.4}")),
        signals
            .cross_encoder_logit
            .map(|logit| format!("cross-encoder {logit:.3}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
