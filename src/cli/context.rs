//! What commands share: a runtime, a connection for a tenant, the reading of replies.

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use super::args::CorpusArgs;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{CorpusName, TenantId};
use crate::transport::nats::{Client, Connection, ReplyRule, connect};
use crate::wire::v1;

/// Time a single call may take.
pub(super) const CALL: Duration = Duration::from_secs(10);
/// Time an analysis of many retrievals may take.
pub(super) const ANALYSIS: Duration = Duration::from_secs(60);

/// Runs a command that only talks to NATS.
pub(super) fn block_on(work: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::internal("no runtime").caused_by(e))?;
    runtime.block_on(work)
}

/// The operator names a tenant.
pub(super) fn tenant(name: &str) -> Result<TenantId> {
    TenantId::mint(name)
        .map_err(|_| Error::invalid_field("--tenant", "must match ^[a-z0-9][a-z0-9_-]{0,62}$"))
}

/// The operator names a corpus.
pub(super) fn corpus(target: &CorpusArgs) -> Result<CorpusName> {
    CorpusName::new(&target.corpus)
        .map_err(|_| Error::invalid_field("--corpus", "must match ^[a-z0-9][a-z0-9_-]{0,62}$"))
}

/// A connection whose inbox this tenant's requests may use.
pub(super) async fn client(config: &Config, tenant: &TenantId) -> Result<(Client, Connection)> {
    let nats = &config.nats;
    let inbox = ReplyRule::new(&nats.reply_prefixes).inbox(tenant);
    let connection = connect(&nats.url, &nats.credentials, "ragbus-cli", &inbox, None).await?;
    Ok((Client::new(connection.clone(), tenant.clone()), connection))
}

/// A worker's error as one of ours: what the caller got wrong is usage, the rest is failed work.
pub(super) fn refused(error: &v1::ErrorResponse) -> Error {
    let kind = match error.code {
        400 | 403 | 413 | 415 | 422 => ErrorKind::InvalidField,
        404 => ErrorKind::NotFound,
        429 => ErrorKind::TenantLimit,
        504 => ErrorKind::Timeout,
        503 => ErrorKind::Overloaded,
        _ => ErrorKind::DependencyFailed,
    };
    let again = match error.retry_after_ms {
        0 => String::new(),
        ms => format!("; try again in {:?}", Duration::from_millis(ms.into())),
    };
    Error::new(
        kind,
        format!("{} ({} {}{again})", error.message, error.code, error.kind),
    )
}
