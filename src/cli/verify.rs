//! `ragbus verify`: asks a worker to compare the registry with the store.

use std::process::ExitCode;
use std::time::Duration;

use super::args::VerifyArgs;
use super::{context, output};
use crate::config::Config;
use crate::error::Result;
use crate::transport::nats::{Reply, ReplyRule, ask_operator, connect};
use crate::wire::v1;

/// A large corpus takes a while.
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) async fn run(config: &Config, args: &VerifyArgs) -> Result<ExitCode> {
    let request = v1::VerifyRequest {
        tenant: context::tenant(&args.target.tenant)?.as_str().to_owned(),
        corpus: context::corpus(&args.target)?.as_str().to_owned(),
        repair: args.repair,
    };
    let nats = &config.nats;
    let inbox = ReplyRule::new(&nats.reply_prefixes).operator_inbox();
    let connection = connect(&nats.url, &nats.credentials, "ragbus-verify", &inbox, None).await?;
    let reply: Result<Reply<v1::VerifyResponse>> =
        ask_operator(&connection, "verify", &request, PATIENCE).await;
    connection.close().await;
    let response = match reply? {
        Reply::Answer(response) => response,
        Reply::Refused(error) => return Err(context::refused(&error)),
    };
    if args.json {
        output::json(&response)?;
    } else {
        print(&response)?;
    }
    Ok(ExitCode::from(u8::from(!response.clean)))
}

fn print(response: &v1::VerifyResponse) -> Result<()> {
    let v1::VerifyResponse {
        documents,
        registry_chunks,
        stored_points,
        removed,
        damaged_documents,
        ..
    } = response;
    output::line(&format!(
        "{documents} documents, {registry_chunks} chunks by the registry, {stored_points} points in the store"
    ))?;
    if *removed > 0 {
        output::line(&format!("removed {removed} points that nothing served"))?;
    }
    for document in &response.damaged {
        output::line(&format!(
            "{}: {} of {} chunks are there: put it again",
            document.document_id, document.found_chunks, document.expected_chunks
        ))?;
    }
    let unnamed = damaged_documents.saturating_sub(response.damaged.len() as u64);
    if unnamed > 0 {
        output::line(&format!("and {unnamed} more documents"))?;
    }
    output::line(match (response.clean, stored_points > registry_chunks) {
        (true, _) => "clean",
        (false, true) => {
            "not clean: the store holds more than is served; jobs in work explain it, else run it with --repair"
        }
        (false, false) => "not clean: jobs in work explain it, else put what is named again",
    })
}
