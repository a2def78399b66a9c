//! `ragbus status`: server, streams, backlog, workers, and a tenant's corpora.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::args::StatusArgs;
use super::{context, output};
use crate::config::Config;
use crate::error::Result;
use crate::transport::nats::{Overview, Reply, ReplyRule, connect, overview};
use crate::wire::v1;

pub(super) async fn run(config: &Config, args: &StatusArgs) -> Result<ExitCode> {
    let nats = &config.nats;
    let connection = connect(
        &nats.url,
        &nats.credentials,
        "ragbus-status",
        &ReplyRule::new(&nats.reply_prefixes).operator_inbox(),
        None,
    )
    .await?;
    let found = overview(&connection).await;
    connection.close().await;
    let corpora = match &args.tenant {
        Some(tenant) => corpora(config, tenant).await?,
        None => Vec::new(),
    };
    if args.json {
        output::json(&as_json(&found, &corpora))?;
    } else {
        print(&found, &corpora)?;
    }
    // Nothing is served without a worker that is ready.
    Ok(if found.workers.is_empty() {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

async fn corpora(config: &Config, tenant: &str) -> Result<Vec<v1::CorpusEntry>> {
    let tenant = context::tenant(tenant)?;
    let (client, connection) = context::client(config, &tenant).await?;
    let question = v1::CatalogRequest {
        question: Some(v1::catalog_request::Question::ListCorpora(
            v1::ListCorpora {},
        )),
    };
    let reply: Reply<v1::CatalogResponse> =
        client.request("catalog", &question, context::CALL).await?;
    connection.close().await;
    match reply {
        Reply::Answer(answer) => Ok(answer.corpora),
        Reply::Refused(error) => Err(context::refused(&error)),
    }
}

fn as_json(found: &Overview, corpora: &[v1::CorpusEntry]) -> Value {
    json!({
        "server": found.server,
        "streams": found.streams.iter().map(|(name, messages)| json!({ "name": name, "messages": messages })).collect::<Vec<_>>(),
        "workers": found.workers,
        "corpora": corpora,
    })
}

fn print(found: &Overview, corpora: &[v1::CorpusEntry]) -> Result<()> {
    output::line(&format!("NATS server {}", found.server))?;
    let mut streams = output::table(["stream", "messages"]);
    for (name, messages) in &found.streams {
        let shown = messages.map_or("missing: run `ragbus setup`".to_owned(), |n| n.to_string());
        streams.add_row([name.clone(), shown]);
    }
    output::line(&streams.to_string())?;
    match found.workers.len() {
        0 => output::line("no worker is ready")?,
        _ => output::line(&format!("workers ready: {}", found.workers.join(", ")))?,
    }
    if !corpora.is_empty() {
        let mut table = output::table(["corpus", "documents", "chunks", "generation", "models"]);
        for entry in corpora {
            let models = entry.models.clone().unwrap_or_default();
            table.add_row([
                entry.corpus.clone(),
                entry.documents.to_string(),
                entry.chunks.to_string(),
                entry.generation.to_string(),
                format!("{}, {}", models.dense, models.sparse),
            ]);
        }
        output::line(&table.to_string())?;
    }
    Ok(())
}
