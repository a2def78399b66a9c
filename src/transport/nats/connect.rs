//! The connection: options, events, what the server allows.

use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, Event};

use crate::error::{Error, Result};
use crate::telemetry::{Health, Metrics};

const CONDITION: &str = "nats";
const API_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection and what hangs on it.
#[derive(Debug, Clone)]
pub struct Connection {
    pub(super) client: async_nats::Client,
    pub(super) jetstream: Context,
}

impl Connection {
    /// The largest message the server takes, in bytes.
    pub fn max_payload(&self) -> usize {
        self.client.server_info().max_payload
    }

    /// The server's version.
    pub fn server_version(&self) -> String {
        self.client.server_info().version
    }

    /// Sends what is buffered, then closes. The last step of a shutdown: it cuts off what is still in flight.
    pub async fn close(&self) {
        let _ = tokio::time::timeout(API_TIMEOUT, self.client.flush()).await;
        let _ = tokio::time::timeout(API_TIMEOUT, self.client.drain()).await;
    }
}

/// Connects once.
///
/// # Errors
/// `DependencyFailed` when the server can't be reached or refuses; `InvalidField` for unusable credentials.
pub async fn connect(
    url: &str,
    credentials: &Path,
    name: &str,
    inbox: &str,
    watch: Option<(Health, Metrics)>,
) -> Result<Connection> {
    let mut options = ConnectOptions::new()
        .name(name)
        .custom_inbox_prefix(inbox)
        .request_timeout(Some(API_TIMEOUT));
    if !credentials.as_os_str().is_empty() {
        options = options
            .credentials_file(credentials)
            .await
            .map_err(|e| Error::invalid_field("nats.credentials", "can't be read").caused_by(e))?;
    }
    if let Some((health, metrics)) = watch {
        options = options.event_callback(move |event| {
            noted(&event, &health, &metrics);
            std::future::ready(())
        });
    }
    let client = options
        .connect(url)
        .await
        .map_err(|e| Error::dependency(format!("no NATS server answers at {}", shown(url)), e))?;
    let jetstream = jetstream::new(client.clone());
    Ok(Connection { client, jetstream })
}

/// The URL without a password.
fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        _ => url.to_owned(),
    }
}

/// Calls that permissions refuse only time out; the reason comes as an event.
fn noted(event: &Event, health: &Health, metrics: &Metrics) {
    let name = match event {
        Event::Connected => {
            health.set(CONDITION, None);
            "connected"
        }
        Event::Disconnected => {
            health.set(CONDITION, Some("the connection is lost".to_owned()));
            "disconnected"
        }
        Event::LameDuckMode => "lame_duck",
        Event::Draining => "draining",
        Event::Closed => "closed",
        Event::SlowConsumer(_) => "slow_consumer",
        Event::ServerError(_) => "server_error",
        Event::ClientError(_) => "client_error",
    };
    metrics.nats_event(name);
    match event {
        Event::SlowConsumer(_) => tracing::debug!(event = name, "nats"),
        Event::ServerError(error) => tracing::warn!(event = name, error = %error, "nats"),
        Event::ClientError(error) => tracing::warn!(event = name, error = %error, "nats"),
        Event::Connected
        | Event::Disconnected
        | Event::LameDuckMode
        | Event::Draining
        | Event::Closed => {
            tracing::info!(event = name, "nats");
        }
    }
}
