//! The connection: options, events, what the server allows.

use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, Event, ServerAddr};

use super::topology::RESULT;
use crate::error::{Error, Result};
use crate::telemetry::{Health, Metrics};

const CONDITION: &str = "nats";
const API_TIMEOUT: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_secs(2);

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

    /// Returns when the server has dealt with everything sent before, and what it sent before that is here; at the latest
    /// after two seconds. (`flush` only empties our own buffer.)
    pub(super) async fn round_trip(&self) {
        // Any answer will do, an error too. It is one of the calls that a worker has the right to.
        let answer = self.jetstream.get_stream(RESULT);
        let _ = tokio::time::timeout(SHORT, answer).await;
    }

    /// Sends what is buffered, then closes. The last step of a shutdown: it cuts off what is still in flight.
    pub async fn close(&self) {
        let _ = tokio::time::timeout(SHORT, self.client.flush()).await;
        let _ = tokio::time::timeout(SHORT, self.client.drain()).await;
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
    let mut options = authenticated(ConnectOptions::new(), url)
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

/// The client library doesn't read user and password, or a token, out of a URL.
fn authenticated(options: ConnectOptions, url: &str) -> ConnectOptions {
    let Ok(address) = url.parse::<ServerAddr>() else {
        return options;
    };
    match (address.username(), address.password()) {
        (Some(user), Some(password)) => options.user_and_password(decoded(user), decoded(password)),
        (Some(token), None) => options.token(decoded(token)),
        (None, _) => options,
    }
}

/// Percent-decodes what a URL carries.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let hex = more.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &more[2..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_carries_is_decoded() {
        assert_eq!(decoded("p%40ss%2Fw%C3%B6rd"), "p@ss/wörd");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }

    #[test]
    fn errors_show_no_password() {
        assert_eq!(shown("nats://u:p@h:1"), "nats://h:1");
        assert_eq!(shown("u:p@h:1"), "h:1");
        assert_eq!(shown("nats://h:1"), "nats://h:1");
    }
}
