//! `worker`, `setup`, `check-config`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::args::{JsonArgs, SetupArgs, WorkerArgs};
use super::{context, output};
use crate::app;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::telemetry::{self, Telemetry};
use crate::transport::nats::Action;

const SHUTDOWN: Duration = Duration::from_secs(5);

/// Runs a worker until SIGTERM or SIGINT.
pub(super) fn worker(config: &Config, args: &WorkerArgs) -> Result<ExitCode> {
    with_telemetry(config, |telemetry, name| async move {
        let stop = CancellationToken::new();
        stop_on_signal(stop.clone())?;
        app::run_worker(config, args.setup, &telemetry, name, stop).await
    })
}

/// Runs a service with logs, traces and metrics, and sends what they buffer at its end.
pub(super) fn with_telemetry<F, W>(config: &Config, work: W) -> Result<ExitCode>
where
    W: FnOnce(Arc<Telemetry>, String) -> F,
    F: Future<Output = Result<()>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::internal("no runtime").caused_by(e))?;
    let name = app::worker_name();
    // Exporters need a runtime around them, but not an async context.
    let telemetry = {
        let _inside = runtime.enter();
        Arc::new(telemetry::start(&config.telemetry.otlp_endpoint, &name)?)
    };
    let outcome = runtime.block_on(work(Arc::clone(&telemetry), name));
    telemetry.shutdown();
    // Work on blocking threads that hangs must not keep the process.
    runtime.shutdown_timeout(SHUTDOWN);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Cancels the token at SIGTERM or SIGINT.
pub(super) fn stop_on_signal(stop: CancellationToken) -> Result<()> {
    let failed = |e| Error::internal("signals can't be handled").caused_by(e);
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    Ok(())
}

/// Sets NATS up and prints what changed.
pub(super) fn setup(config: &Config, args: &SetupArgs) -> Result<ExitCode> {
    let tenants = args.tenant.iter().map(|name| context::tenant(name));
    let tenants = tenants.collect::<Result<Vec<_>>>()?;
    context::block_on(async {
        for change in app::run_setup(config, &tenants).await? {
            if args.json {
                let action = match &change.action {
                    Action::Unchanged => "unchanged",
                    Action::Created => "created",
                    Action::Updated(_) => "updated",
                    Action::Raised(_) => "raised",
                };
                output::json(&serde_json::json!({ "what": change.what, "action": action }))?;
            } else {
                output::line(&change.to_string())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints the configuration in force. Secrets are redacted.
pub(super) fn check_config(config: &Config, args: &JsonArgs) -> Result<ExitCode> {
    app::check(config)?;
    if args.json {
        output::json(config)?;
    } else {
        let text = toml::to_string(config)
            .map_err(|e| Error::internal("the configuration can't be printed").caused_by(e))?;
        output::line(text.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
