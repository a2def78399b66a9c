//! What an operator sees of a running system: streams, backlog, workers.

use std::time::Duration;

use futures::StreamExt;

use super::connect::Connection;
use super::topology::{DEAD, INGEST, RESULT};
use super::tracking_topology::TRACKING;

/// Workers that don't answer in this time count as absent.
const LISTEN: Duration = Duration::from_millis(500);

/// A look at the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// The server's version.
    pub server: String,
    /// Streams with their messages; `None` = missing.
    pub streams: Vec<(String, Option<u64>)>,
    /// Names of the workers that are ready.
    pub workers: Vec<String>,
}

/// Takes a look. What can't be read counts as missing.
pub async fn overview(connection: &Connection) -> Overview {
    let mut streams = Vec::new();
    for name in [INGEST, RESULT, DEAD, TRACKING] {
        let found = connection.jetstream.get_stream(name).await.ok();
        streams.push((
            name.to_owned(),
            found.map(|s| s.cached_info().state.messages),
        ));
    }
    Overview {
        server: connection.server_version(),
        streams,
        workers: workers(connection).await,
    }
}

async fn workers(connection: &Connection) -> Vec<String> {
    let client = &connection.client;
    let inbox = client.new_inbox();
    let Ok(mut replies) = client.subscribe(inbox.clone()).await else {
        return Vec::new();
    };
    if client
        .publish_with_reply("$SRV.PING.ragbus", inbox, "".into())
        .await
        .is_err()
    {
        return Vec::new();
    }
    let mut workers = Vec::new();
    let listening = async {
        while let Some(reply) = replies.next().await {
            let ping: serde_json::Value =
                serde_json::from_slice(&reply.payload).unwrap_or_default();
            if let Some(id) = ping["id"].as_str() {
                workers.push(id.to_owned());
            }
        }
    };
    let _ = tokio::time::timeout(LISTEN, listening).await;
    workers.sort();
    workers
}
