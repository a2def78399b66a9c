//! Creates or updates streams and consumers, and says what it changed. Needs rights that workers don't have.

use std::fmt;

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Config, Stream};

use super::connect::Connection;
use super::topology::{self, INGEST, consumer_facts, differences, stream_facts};
use super::tracking_topology::{self, TRACKING};
use crate::error::{Error, Result};

/// What happened to one stream or consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// For example `stream RAG_INGEST`.
    pub what: String,
    /// What was done.
    pub action: Action,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It was as it should be.
    Unchanged,
    /// It was missing.
    Created,
    /// These facts differed: name, now, before.
    Updated(Vec<(&'static str, String, String)>),
    /// The next sequence was raised to this.
    Raised(u64),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::Unchanged => write!(f, "  {} unchanged", self.what),
            Action::Created => write!(f, "+ {} created", self.what),
            Action::Raised(first) => write!(f, "~ {} continues at sequence {first}", self.what),
            Action::Updated(facts) => {
                write!(f, "~ {} updated", self.what)?;
                for (name, now, before) in facts {
                    write!(f, "\n    {name}: {before} -> {now}")?;
                }
                Ok(())
            }
        }
    }
}

/// Brings the server's state to what workers expect. `highest` is the highest sequence the registry knows: a new ingest
/// stream starts above it, or every later job would be superseded.
///
/// # Errors
/// `DependencyFailed` with what the server said; when an old stream with messages is below `highest`, what to do.
pub async fn setup(connection: &Connection, replicas: usize, highest: u64) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for mut config in topology::streams(connection.max_payload(), replicas) {
        if config.name == INGEST && highest > 0 {
            config.first_sequence = Some(highest + 1);
        }
        changes.push(stream(connection, config).await?);
    }
    let ingest = connection
        .jetstream
        .get_stream(INGEST)
        .await
        .map_err(|e| failed("stream RAG_INGEST", e))?;
    changes.extend(raised(&ingest, highest).await?);
    for config in topology::consumers() {
        changes.push(consumer(&ingest, config).await?);
    }
    let tracking = connection.jetstream.get_stream(TRACKING).await;
    let tracking = tracking.map_err(|e| failed("stream RAG_TRACKING", e))?;
    changes.push(consumer(&tracking, tracking_topology::consumer()).await?);
    Ok(changes)
}

pub(super) async fn stream(connection: &Connection, wanted: Config) -> Result<Change> {
    let what = format!("stream {}", wanted.name);
    let jetstream = &connection.jetstream;
    let found = match jetstream.get_stream(&wanted.name).await {
        Ok(stream) => stream.cached_info().config.clone(),
        Err(error) if matches!(error.kind(), GetStreamErrorKind::JetStream(_)) => {
            jetstream
                .create_stream(wanted)
                .await
                .map_err(|e| failed(&what, e))?;
            return Ok(Change {
                what,
                action: Action::Created,
            });
        }
        Err(error) => return Err(failed(&what, error)),
    };
    let wanted = overlaid(&found, wanted);
    let facts = differences(stream_facts(&wanted), stream_facts(&found));
    if facts.is_empty() {
        return Ok(Change {
            what,
            action: Action::Unchanged,
        });
    }
    jetstream
        .update_stream(wanted)
        .await
        .map_err(|e| failed(&what, e))?;
    Ok(Change {
        what,
        action: Action::Updated(facts),
    })
}

/// Ours over what the server holds. Sizes and ages are an operator's choice once the stream exists, and copies are only
/// ever raised: putting ours back would delete what an operator wanted kept.
fn overlaid(found: &Config, wanted: Config) -> Config {
    Config {
        first_sequence: found.first_sequence,
        placement: found.placement.clone(),
        compression: found.compression.clone(),
        metadata: found.metadata.clone(),
        max_consumers: found.max_consumers,
        max_messages: found.max_messages,
        max_bytes: found.max_bytes,
        max_age: found.max_age,
        max_messages_per_subject: found.max_messages_per_subject,
        duplicate_window: found.duplicate_window,
        num_replicas: found.num_replicas.max(wanted.num_replicas),
        ..wanted
    }
}

/// An empty stream that counts from below the registry's highest sequence is raised by a purge.
async fn raised(ingest: &Stream, highest: u64) -> Result<Option<Change>> {
    let what = "stream RAG_INGEST".to_owned();
    let state = ingest.get_info().await.map_err(|e| failed(&what, e))?.state;
    if state.last_sequence >= highest {
        return Ok(None);
    }
    if state.messages > 0 {
        return Err(Error::new(
            crate::error::ErrorKind::DependencyFailed,
            format!(
                "{what} holds jobs with sequences up to {}, below the registry's {highest}: it was recreated. \
                 Save its messages, delete it, run setup again, and publish them again",
                state.last_sequence
            ),
        ));
    }
    let first = highest + 1;
    ingest
        .purge()
        .sequence(first)
        .await
        .map_err(|e| failed(&what, e))?;
    Ok(Some(Change {
        what,
        action: Action::Raised(first),
    }))
}

pub(super) async fn consumer(stream: &Stream, wanted: pull::Config) -> Result<Change> {
    let name = wanted.durable_name.clone().unwrap_or_default();
    let what = format!("consumer {name}");
    let found = match stream.get_consumer::<pull::Config>(&name).await {
        Ok(consumer) => Some(consumer.cached_info().config.clone()),
        Err(_) => None,
    };
    let action = match found {
        None => Action::Created,
        Some(found) => {
            let found: pull::Config =
                async_nats::jetstream::consumer::FromConsumer::try_from_consumer_config(found)
                    .map_err(|e| failed(&what, e))?;
            let facts = differences(consumer_facts(&wanted), consumer_facts(&found));
            if facts.is_empty() {
                return Ok(Change {
                    what,
                    action: Action::Unchanged,
                });
            }
            Action::Updated(facts)
        }
    };
    stream
        .create_consumer(wanted)
        .await
        .map_err(|e| failed(&what, e))?;
    Ok(Change { what, action })
}

pub(super) fn failed(
    what: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::dependency(format!("{what} can't be set up"), error)
}
