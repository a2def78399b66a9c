//! `ragbus dev`: everything on one machine, in one command.

use std::process::ExitCode;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::args::DevArgs;
use super::nats_server::NatsServer;
use super::service::{stop_on_signal, with_telemetry};
use crate::app;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::telemetry::Telemetry;

/// Runs until SIGTERM or SIGINT.
pub(super) fn run(config: Config, args: &DevArgs) -> Result<ExitCode> {
    let port = match args.port {
        Some(port) => port,
        None => port_of(&config.nats.url)?,
    };
    let for_telemetry = config.clone();
    with_telemetry(&for_telemetry, |telemetry, name| {
        serve(config, port, telemetry, name)
    })
}

async fn serve(
    mut config: Config,
    port: u16,
    telemetry: Arc<Telemetry>,
    name: String,
) -> Result<()> {
    let stop = CancellationToken::new();
    stop_on_signal(stop.clone())?;
    // Nothing is started over a folder that another process holds.
    drop(app::lock_data(&config.data_dir)?);
    let dir = config.data_dir.join("nats");
    let server = NatsServer::start(&config.nats.server, &dir, port).await?;
    config.nats.url.clone_from(&server.url);
    eprintln!("ragbus dev: NATS at {}; Ctrl-C ends everything", server.url);
    let outcome = app::run_worker(&config, true, &telemetry, name, stop).await;
    server.stop().await;
    outcome
}

fn port_of(url: &str) -> Result<u16> {
    let host = url.rsplit_once('@').map_or(url, |(_, host)| host);
    let host = host.rsplit_once("//").map_or(host, |(_, host)| host);
    match host
        .rsplit_once(':')
        .map(|(_, port)| port.trim_end_matches('/').parse())
    {
        None => Ok(4222),
        Some(Ok(port)) => Ok(port),
        Some(Err(_)) => Err(Error::invalid_field("nats.url", "must end in a port")),
    }
}
