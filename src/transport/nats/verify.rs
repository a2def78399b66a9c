//! Workers only verify: what is missing or differs, said exactly.

use async_nats::jetstream::consumer::{FromConsumer, pull};
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, Stream};

use super::connect::Connection;
use super::topology::{self, INGEST, consumer_facts, differences, stream_facts};
use super::tracking_topology::TRACKING;

/// What keeps a worker from serving; empty = nothing. `highest` is the highest sequence the registry knows.
pub async fn verify(connection: &Connection, highest: u64) -> Vec<String> {
    let mut problems = Vec::new();
    // Tracking's own stream is the tracker role's business: jobs go on without it.
    let streams = topology::streams(connection.max_payload(), 1);
    for wanted in streams.iter().filter(|wanted| wanted.name != TRACKING) {
        match stream_problems(connection, wanted).await {
            Err(found) => problems.extend(found),
            Ok(last) if wanted.name == INGEST && last < highest => problems.push(format!(
                "stream {INGEST} is at sequence {last}, the registry has seen {highest}: the stream was recreated and every put \
                 would be superseded. Run `ragbus setup` while it is empty"
            )),
            Ok(_) => {}
        }
    }
    if problems.is_empty() {
        problems.extend(consumers(connection).await);
    }
    problems
}

/// A stream's last sequence.
///
/// # Errors
/// What is missing or differs.
pub(super) async fn stream_problems(
    connection: &Connection,
    wanted: &Config,
) -> Result<u64, Vec<String>> {
    let name = &wanted.name;
    let stream = match connection.jetstream.get_stream(name).await {
        Ok(stream) => stream,
        Err(error) if is_missing(&error) => {
            return Err(vec![format!(
                "stream {name} is missing: run `ragbus setup`"
            )]);
        }
        Err(error) => return Err(vec![format!("stream {name} can't be read: {error}")]),
    };
    let info = stream.cached_info();
    let facts = differences(stream_facts(wanted), stream_facts(&info.config));
    let facts = facts.into_iter().filter(|(fact, _, _)| !is_operators(fact));
    let problems: Vec<String> = facts
        .map(|(fact, want, found)| {
            format!("stream {name} has {fact} {found}, not {want}: run `ragbus setup`")
        })
        .collect();
    match problems.is_empty() {
        true => Ok(info.state.last_sequence),
        false => Err(problems),
    }
}

/// Copies and sizes are an operator's choice.
fn is_operators(fact: &str) -> bool {
    matches!(
        fact,
        "replicas" | "max_bytes" | "max_age" | "max_msgs_per_subject" | "duplicate_window"
    )
}

/// A refused permission or a time-out is no missing stream: setting up again would not mend it.
fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(told) if told.code() == 404)
}

async fn consumers(connection: &Connection) -> Vec<String> {
    let Ok(ingest) = connection.jetstream.get_stream(INGEST).await else {
        return vec![format!("stream {INGEST} can't be read")];
    };
    let mut problems = Vec::new();
    for wanted in topology::consumers() {
        problems.extend(consumer_problems(&ingest, &wanted).await);
    }
    problems
}

/// What is wrong with a consumer of this stream.
pub(super) async fn consumer_problems<I>(stream: &Stream<I>, wanted: &pull::Config) -> Vec<String> {
    let name = wanted.durable_name.clone().unwrap_or_default();
    let Ok(consumer) = stream.get_consumer::<pull::Config>(&name).await else {
        return vec![format!("consumer {name} is missing: run `ragbus setup`")];
    };
    let found = consumer.cached_info().config.clone();
    let Ok(found) = pull::Config::try_from_consumer_config(found) else {
        return vec![format!(
            "consumer {name} is no pull consumer: delete it and run `ragbus setup`"
        )];
    };
    let facts = differences(consumer_facts(wanted), consumer_facts(&found)).into_iter();
    facts
        .map(|(fact, want, found)| {
            format!("consumer {name} has {fact} {found}, not {want}: run `ragbus setup`")
        })
        .collect()
}
