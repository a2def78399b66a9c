//! `ragbus purge`, `ragbus hold`, `ragbus forget`: operators' requests about keeping and forgetting.

use std::process::ExitCode;
use std::time::Duration;

use super::args_retention::{ForgetArgs, HoldArgs, HoldCommand, PurgeArgs};
use super::{context, output};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::TenantId;
use crate::transport::nats::{
    Connection, RemovedMessages, Reply, ReplyRule, ask_operator, connect, remove_messages,
};
use crate::wire::v1;
use v1::retention_state::Kind as State;

const PATIENCE: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(500);

async fn operator(config: &Config) -> Result<Connection> {
    let nats = &config.nats;
    let inbox = ReplyRule::new(&nats.reply_prefixes).operator_inbox();
    connect(
        &nats.url,
        &nats.credentials,
        "ragbus-operator",
        &inbox,
        None,
    )
    .await
}

async fn ask<Q, A>(connection: &Connection, verb: &str, question: &Q) -> Result<A>
where
    Q: prost::Message + serde::Serialize,
    A: prost::Message + Default + serde::de::DeserializeOwned,
{
    match ask_operator(connection, verb, question, PATIENCE).await? {
        Reply::Answer(answer) => Ok(answer),
        Reply::Refused(error) => Err(context::refused(&error)),
    }
}

/// Orders a purge and waits for its end, or tells what one would do.
pub(super) async fn purge(config: &Config, args: &PurgeArgs) -> Result<ExitCode> {
    let tenant = args.tenant.as_deref().map(context::tenant).transpose()?;
    let request = v1::PurgeRequest {
        tenant: tenant.map_or(String::new(), |t| t.as_str().to_owned()),
        corpus: args.corpus.clone().unwrap_or_default(),
        older_than_days: Some(days(&args.older_than)?),
        dry_run: args.dry_run,
        force: args.force,
        run: String::new(),
    };
    let connection = operator(config).await?;
    let followed = async {
        let mut response: v1::PurgeResponse = ask(&connection, "purge", &request).await?;
        while response.state() == State::Open {
            tokio::time::sleep(LOOK_EVERY).await;
            let look = v1::PurgeRequest {
                run: response.run.clone(),
                ..v1::PurgeRequest::default()
            };
            response = ask(&connection, "purge", &look).await?;
        }
        Ok(response)
    };
    let response: Result<v1::PurgeResponse> = followed.await;
    connection.close().await;
    let response = response?;
    match args.json {
        true => output::json(&response)?,
        false => purged(&response)?,
    }
    let done = matches!(response.state(), State::Done | State::DryRun);
    Ok(ExitCode::from(u8::from(!done)))
}

/// Whole days, or weeks: `90d`, `12w`.
fn days(text: &str) -> Result<u32> {
    let refused = || {
        Error::invalid_field(
            "--older-than",
            "must be whole days or weeks, such as 90d or 12w",
        )
    };
    let (number, factor) = match (text.strip_suffix('d'), text.strip_suffix('w')) {
        (Some(days), _) => (days, 1),
        (_, Some(weeks)) => (weeks, 7),
        _ => return Err(refused()),
    };
    let number: u32 = number.parse().map_err(|_| refused())?;
    number.checked_mul(factor).ok_or_else(refused)
}

fn purged(response: &v1::PurgeResponse) -> Result<()> {
    let v1::PurgeResponse {
        retrievals,
        chunks,
        documents,
        feedback,
        total,
        ..
    } = response;
    let what = format!(
        "{retrievals} retrievals with {chunks} chunks, {documents} documents and {feedback} judgements"
    );
    for note in &response.notes {
        output::line(note)?;
    }
    output::line(&match response.state() {
        State::DryRun => format!("would remove {what}, of {total} retrievals"),
        State::Done => format!("removed {what}"),
        State::Refused => format!("refused; removed {what}"),
        State::Failed => format!("not all of it could be done; removed {what}"),
        State::Open | State::Unspecified => format!("in work; removed {what} so far"),
    })
}

/// Adds, lists or releases legal holds.
pub(super) async fn hold(config: &Config, args: &HoldArgs) -> Result<ExitCode> {
    use v1::hold_request::Action;
    let (tenant, json, action) = match &args.command {
        HoldCommand::Add(add) => (
            &add.tenant,
            add.json,
            Action::Add(v1::AddHold {
                corpus: add.corpus.clone().unwrap_or_default(),
                document_id: add.document.clone().unwrap_or_default(),
                reason: add.reason.clone(),
            }),
        ),
        HoldCommand::Ls(ls) => (&ls.tenant, ls.json, Action::List(v1::ListHolds {})),
        HoldCommand::Release(release) => (
            &release.tenant,
            release.json,
            Action::Release(v1::ReleaseHold {
                hold_id: release.id.clone(),
            }),
        ),
    };
    let request = v1::HoldRequest {
        tenant: context::tenant(tenant)?.as_str().to_owned(),
        action: Some(action),
    };
    let connection = operator(config).await?;
    let response: Result<v1::HoldResponse> = ask(&connection, "hold", &request).await;
    connection.close().await;
    let response = response?;
    if json {
        output::json(&response)?;
    } else {
        holds(&response)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn holds(response: &v1::HoldResponse) -> Result<()> {
    if response.holds.is_empty() {
        return output::line("no legal hold is in force");
    }
    let mut table = output::table(["hold", "corpus", "document", "by", "reason"]);
    for hold in &response.holds {
        let all = |name: &str| match name {
            "" => "(all)".to_owned(),
            name => name.to_owned(),
        };
        table.add_row([
            hold.hold_id.clone(),
            all(&hold.corpus),
            all(&hold.document_id),
            hold.actor.clone(),
            hold.reason.clone(),
        ]);
    }
    output::line(&table.to_string())
}

/// Forgets a tenant: what waits in NATS, what workers keep, and what came of jobs in work meanwhile.
pub(super) async fn forget(config: &Config, args: &ForgetArgs) -> Result<ExitCode> {
    let tenant = context::tenant(&args.tenant)?;
    if !args.yes {
        return Err(Error::invalid_field(
            "--yes",
            format!("is needed: all of {tenant} will be gone for good"),
        ));
    }
    let connection = operator(config).await?;
    let forgotten = forgotten(&connection, &tenant).await;
    connection.close().await;
    let (receipt, removed) = forgotten?;
    if args.json {
        let messages = serde_json::json!({
            "jobs": removed.jobs, "results": removed.results, "deadLetters": removed.dead_letters,
            "events": removed.events, "blobs": removed.blobs,
        });
        output::json(
            &serde_json::json!({ "tenant": tenant.as_str(), "kept": receipt, "messages": messages }),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&format!("forgot {tenant}:"))?;
    let rows = [
        ("corpora", receipt.corpora),
        ("documents", receipt.documents),
        ("chunks", receipt.chunks),
        ("rows of deleted documents", receipt.tombstones),
        ("retrievals", receipt.retrievals),
        ("retrieved chunks", receipt.retrieved_chunks),
        ("judgements", receipt.feedback),
        ("jobs that waited", removed.jobs),
        ("results", removed.results),
        ("dead letters", removed.dead_letters),
        ("events on their way", removed.events),
        ("large bodies", removed.blobs),
    ];
    for (what, count) in rows {
        output::line(&format!("  {count:>10} {what}"))?;
    }
    output::line(
        "what stays: names and generations of its corpora, so that nothing comes back; this receipt, in admin_audit",
    )?;
    Ok(ExitCode::SUCCESS)
}

async fn forgotten(
    connection: &Connection,
    tenant: &TenantId,
) -> Result<(v1::ForgetResponse, RemovedMessages)> {
    let request = v1::ForgetRequest {
        tenant: tenant.as_str().to_owned(),
        messages: None,
    };
    // Asked first: a legal hold refuses all of it.
    let holds = v1::HoldRequest {
        tenant: tenant.as_str().to_owned(),
        action: Some(v1::hold_request::Action::List(v1::ListHolds {})),
    };
    let held: v1::HoldResponse = ask(connection, "hold", &holds).await?;
    if !held.holds.is_empty() {
        let message = format!(
            "is under {} legal holds: release them first (`ragbus hold ls`)",
            held.holds.len()
        );
        return Err(Error::invalid_field("--tenant", message));
    }
    let mut removed = remove_messages(connection, tenant).await?;
    let receipt: v1::ForgetResponse = ask(connection, "forget", &request).await?;
    let after = remove_messages(connection, tenant).await?;
    removed.jobs += after.jobs;
    removed.results += after.results;
    removed.dead_letters += after.dead_letters;
    removed.events += after.events;
    removed.blobs += after.blobs;
    let messages = v1::ForgottenMessages {
        jobs: removed.jobs,
        results: removed.results,
        dead_letters: removed.dead_letters,
        events: removed.events,
        blobs: removed.blobs,
    };
    let recorded = v1::ForgetRequest {
        messages: Some(messages),
        ..request
    };
    let _: v1::ForgetResponse = ask(connection, "forget", &recorded).await?;
    Ok((receipt, removed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_whole_days() {
        assert_eq!(days("90d").expect("valid"), 90);
        assert_eq!(days("2w").expect("valid"), 14);
        assert_eq!(days("0d").expect("valid"), 0);
        for bad in [
            "",
            "d",
            "90",
            "-1d",
            "1.5d",
            "3m",
            "99999999999d",
            "999999999w",
        ] {
            assert_eq!(days(bad).expect_err(bad).field(), Some("--older-than"));
        }
    }
}
