//! Workers only verify: what is missing or differs, said exactly.

use async_nats::jetstream::consumer::{FromConsumer, pull};
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};

use super::connect::Connection;
use super::topology::{self, INGEST, consumer_facts, differences, stream_facts};

/// What keeps a worker from serving; empty = nothing. `highest` is the highest sequence the registry knows.
pub async fn verify(connection: &Connection, highest: u64) -> Vec<String> {
    let mut problems = Vec::new();
    for wanted in topology::streams(connection.max_payload(), 1) {
        match connection.jetstream.get_stream(&wanted.name).await {
            Err(error) if is_missing(&error) => problems.push(format!(
                "stream {} is missing: run `ragbus setup`",
                wanted.name
            )),
            Err(error) => problems.push(format!("stream {} can't be read: {error}", wanted.name)),
            Ok(stream) => {
                let info = stream.cached_info();
                let facts = differences(stream_facts(&wanted), stream_facts(&info.config));
                problems.extend(
                    facts
                        .into_iter()
                        // Copies and sizes are an operator's choice.
                        .filter(|(name, _, _)| {
                            !matches!(
                                *name,
                                "replicas"
                                    | "max_bytes"
                                    | "max_age"
                                    | "max_msgs_per_subject"
                                    | "duplicate_window"
                            )
                        })
                        .map(|(name, want, found)| {
                            format!(
                                "stream {} has {name} {found}, not {want}: run `ragbus setup`",
                                wanted.name
                            )
                        }),
                );
                if wanted.name == INGEST && info.state.last_sequence < highest {
                    problems.push(format!(
                        "stream {INGEST} is at sequence {}, the registry has seen {highest}: the stream was recreated and every put \
                         would be superseded. Run `ragbus setup` while it is empty",
                        info.state.last_sequence
                    ));
                }
            }
        }
    }
    if problems.is_empty() {
        problems.extend(consumers(connection).await);
    }
    problems
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
        let name = wanted.durable_name.clone().unwrap_or_default();
        let Ok(consumer) = ingest.get_consumer::<pull::Config>(&name).await else {
            problems.push(format!("consumer {name} is missing: run `ragbus setup`"));
            continue;
        };
        let Ok(found) =
            pull::Config::try_from_consumer_config(consumer.cached_info().config.clone())
        else {
            problems.push(format!(
                "consumer {name} is no pull consumer: delete it and run `ragbus setup`"
            ));
            continue;
        };
        for (fact, want, found) in differences(consumer_facts(&wanted), consumer_facts(&found)) {
            problems.push(format!(
                "consumer {name} has {fact} {found}, not {want}: run `ragbus setup`"
            ));
        }
    }
    problems
}
