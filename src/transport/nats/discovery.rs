//! `$SRV.PING|INFO|STATS`: the NATS service protocol (ADR-32), so that `nats service ls` finds workers.
//!
//! Answered only while the worker can serve, and only at allowed addresses.

use std::sync::Arc;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::connect::Connection;
use super::endpoint_stats::EndpointStats;
use super::reply::ReplyRule;
use crate::error::{Error, Result};
use crate::model::Timestamp;
use crate::telemetry::{Health, Metrics};

const NAME: &str = "ragbus";

/// Answers discovery requests.
#[derive(Debug)]
pub struct Discovery {
    connection: Connection,
    rule: ReplyRule,
    health: Health,
    metrics: Metrics,
    worker: String,
    endpoints: Vec<Arc<EndpointStats>>,
    started: String,
}

impl Discovery {
    /// For a worker with these endpoints.
    pub fn new(
        connection: Connection,
        rule: ReplyRule,
        health: Health,
        metrics: Metrics,
        worker: String,
        endpoints: Vec<Arc<EndpointStats>>,
    ) -> Self {
        let started = jiff::Timestamp::from_microsecond(Timestamp::now().as_micros());
        Self {
            connection,
            rule,
            health,
            metrics,
            worker,
            endpoints,
            started: started.map(|t| t.to_string()).unwrap_or_default(),
        }
    }

    /// Answers until `stop`.
    ///
    /// # Errors
    /// `DependencyFailed` when the subscription is refused.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        let failed = |e| Error::dependency("the discovery subscription was refused", e);
        let client = &self.connection.client;
        let mut requests = client.subscribe("$SRV.>").await.map_err(failed)?;
        loop {
            let request = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                request = requests.next() => request,
            };
            let Some(request) = request else {
                return Ok(());
            };
            // Every service of the account hears these: what is not for us is not counted either.
            let Some(body) = self.body(&request.subject) else {
                continue;
            };
            let Some(address) = request.reply.filter(|a| self.rule.allows(a, None)) else {
                self.metrics.reply_refused();
                if self.rule.worth_telling() {
                    tracing::warn!(
                        endpoint = "$SRV",
                        "a request without an allowed reply address gets no reply"
                    );
                }
                continue;
            };
            if !self.health.is_ready() {
                continue;
            }
            if let Err(error) = client.publish(address, body.to_string().into()).await {
                tracing::debug!(error = %error, "a discovery reply could not be sent");
            }
        }
    }

    /// `$SRV.<verb>[.<name>[.<id>]]` for this worker.
    fn body(&self, subject: &str) -> Option<Value> {
        let mut tokens = subject.split('.').skip(1);
        let verb = tokens.next()?;
        let name = tokens.next().is_none_or(|name| name == NAME);
        let id = tokens.next().is_none_or(|id| id == self.worker);
        if !(name && id && tokens.next().is_none()) {
            return None;
        }
        let mut body = json!({
            "name": NAME,
            "id": self.worker,
            "version": env!("CARGO_PKG_VERSION"),
            "metadata": {},
        });
        let (kind, more) = match verb {
            "PING" => ("ping", json!({})),
            "INFO" => (
                "info",
                json!({
                    "description": "retrieval over NATS request/reply",
                    "endpoints": self.endpoints.iter().map(|e| e.info()).collect::<Vec<_>>(),
                }),
            ),
            "STATS" => (
                "stats",
                json!({
                    "started": self.started,
                    "endpoints": self.endpoints.iter().map(|e| e.stats()).collect::<Vec<_>>(),
                }),
            ),
            _ => return None,
        };
        body["type"] = json!(format!("io.nats.micro.v1.{kind}_response"));
        for (key, value) in more.as_object()? {
            body[key] = value.clone();
        }
        Some(body)
    }
}
