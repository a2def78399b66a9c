//! `ragbus reindex`: asks workers to rebuild a corpus, and follows them until it is done.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::args::ReindexArgs;
use super::{context, output};
use crate::config::Config;
use crate::error::Result;
use crate::transport::nats::{Connection, Reply, ReplyRule, ask_operator, connect};
use crate::wire::v1;
use v1::reindex_action::Kind as Action;
use v1::reindex_state::Kind as State;

const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) async fn run(config: &Config, args: &ReindexArgs) -> Result<ExitCode> {
    let nats = &config.nats;
    let inbox = ReplyRule::new(&nats.reply_prefixes).operator_inbox();
    let connection = connect(&nats.url, &nats.credentials, "ragbus-reindex", &inbox, None).await?;
    let followed = follow(&connection, args).await;
    connection.close().await;
    let response = followed?;
    if args.json {
        output::json(&response)?;
    } else {
        output::line(&told(&response))?;
    }
    let failed = !args.status && response.state() == State::Cancelled && !args.cancel;
    Ok(ExitCode::from(u8::from(failed)))
}

async fn follow(connection: &Connection, args: &ReindexArgs) -> Result<v1::ReindexResponse> {
    let action = match (args.status, args.cancel) {
        (true, _) => Action::Status,
        (_, true) => Action::Cancel,
        (false, false) => Action::Start,
    };
    let mut response = ask(connection, args, action).await?;
    if args.status || args.no_wait {
        return Ok(response);
    }
    let bar = bar();
    let mut problem = String::new();
    // Between two looks the old generation may be dropped: that needs nobody to wait.
    while matches!(response.state(), State::Building | State::Cancelling) {
        if response.problem != problem && !response.problem.is_empty() {
            bar.println(format!("waiting: {}", response.problem));
        }
        problem.clone_from(&response.problem);
        bar.set_length(response.documents);
        bar.set_position(response.built);
        tokio::time::sleep(LOOK_EVERY).await;
        response = ask(connection, args, Action::Status).await?;
    }
    bar.finish_and_clear();
    Ok(response)
}

/// Drawn on a terminal only.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} documents rebuilt") {
        bar.set_style(style);
    }
    bar
}

async fn ask(
    connection: &Connection,
    args: &ReindexArgs,
    action: Action,
) -> Result<v1::ReindexResponse> {
    let request = v1::ReindexRequest {
        tenant: context::tenant(&args.target.tenant)?.as_str().to_owned(),
        corpus: context::corpus(&args.target)?.as_str().to_owned(),
        action: action.into(),
    };
    let reply: Result<Reply<v1::ReindexResponse>> =
        ask_operator(connection, "reindex", &request, PATIENCE).await;
    match reply? {
        Reply::Answer(response) => Ok(response),
        Reply::Refused(error) => Err(context::refused(&error)),
    }
}

fn told(response: &v1::ReindexResponse) -> String {
    let v1::ReindexResponse {
        dense_model,
        sparse_model,
        documents,
        built,
        generation,
        missing_chunks,
        problem,
        ..
    } = response;
    let models = format!("{dense_model} and {sparse_model}");
    let missing = match missing_chunks {
        0 => String::new(),
        lost => {
            format!("; {lost} chunks were missing before: `ragbus verify` names their documents")
        }
    };
    let waiting = match problem.as_str() {
        "" => String::new(),
        problem => format!("; waiting: {problem}"),
    };
    match response.state() {
        State::Current => "the corpus is built with the models in force".to_owned(),
        State::Outdated => {
            "the corpus is built with other models; nothing is being rebuilt".to_owned()
        }
        State::Building => {
            format!("rebuilding with {models}: {built} of {documents} documents{waiting}{missing}")
        }
        State::Switched | State::Done => {
            format!("rebuilt with {models}: generation {generation} is served{missing}")
        }
        State::Cancelling => format!("called off; what was built is being dropped{waiting}"),
        State::Cancelled => "the rebuild was called off".to_owned(),
        State::Unspecified => "the worker told nothing".to_owned(),
    }
}
