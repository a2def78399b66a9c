//! Streams and consumers as they should be. Must not know how they are compared or changed.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Republish, RetentionPolicy, StorageType, SubjectTransform,
};

use super::tracking_topology;

/// Lanes of the ingest stream; a tenant's lane is a hash of its name.
pub const LANES: usize = 16;
/// Time without a sign of life after which a job is delivered again. Longer than a store's limit for one write.
pub const ACK_WAIT: Duration = Duration::from_secs(30);

pub(super) const INGEST: &str = "RAG_INGEST";
pub(super) const RESULT: &str = "RAG_RESULT";
pub(super) const DEAD: &str = "RAG_DLQ";
pub(super) const HINTS: &str = "rag.hint.*";

/// Room that a message's headers and a dead letter's own headers may take beside the body.
const HEADROOM: usize = 64 * 1024;
/// Jobs of one tenant that may wait.
const TENANT_BACKLOG: i64 = 1_000;
/// Jobs of one lane that may be out at once, in work or waiting: the backlogs of so many tenants that flood it together.
const LANE_PENDING: i64 = 16 * TENANT_BACKLOG;
const MIB: i64 = 1024 * 1024;
const DAY: Duration = Duration::from_secs(86_400);

/// The largest body of a job or request, given the server's `max_payload`.
pub(super) fn max_body(max_payload: usize) -> usize {
    max_payload.saturating_sub(HEADROOM)
}

/// The streams, for a server with this `max_payload`.
pub(super) fn streams(max_payload: usize, replicas: usize) -> Vec<Config> {
    vec![
        ingest(max_payload, replicas),
        results(replicas),
        dead_letters(replicas),
        tracking_topology::stream(max_payload, replicas),
    ]
}

/// Never with schedules, rollups or TTL: a tenant can write to it.
fn ingest(max_payload: usize, replicas: usize) -> Config {
    Config {
        name: INGEST.to_owned(),
        description: Some("ingest jobs, by lane and tenant".to_owned()),
        subjects: vec!["rag.ingest.*".to_owned()],
        subject_transform: Some(SubjectTransform {
            source: "rag.ingest.*".to_owned(),
            destination: format!("rag.work.{{{{partition({LANES},1)}}}}.{{{{wildcard(1)}}}}"),
        }),
        // Wakes workers up without another copy of the body.
        republish: Some(Republish {
            source: "rag.work.*.*".to_owned(),
            destination: "rag.hint.{{wildcard(1)}}".to_owned(),
            headers_only: true,
        }),
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        max_messages_per_subject: TENANT_BACKLOG,
        max_bytes: 2_048 * MIB,
        max_age: 7 * DAY,
        max_message_size: i32::try_from(max_body(max_payload)).unwrap_or(i32::MAX),
        duplicate_window: Duration::from_secs(600),
        storage: StorageType::File,
        num_replicas: replicas,
        ..Config::default()
    }
}

fn results(replicas: usize) -> Config {
    Config {
        name: RESULT.to_owned(),
        description: Some("the last result of each job".to_owned()),
        subjects: vec!["rag.result.*.*".to_owned()],
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::Old,
        max_messages_per_subject: 1,
        max_bytes: 256 * MIB,
        max_age: DAY,
        max_message_size: 64 * 1024,
        duplicate_window: Duration::from_secs(120),
        storage: StorageType::File,
        num_replicas: replicas,
        allow_direct: true,
        ..Config::default()
    }
}

fn dead_letters(replicas: usize) -> Config {
    Config {
        name: DEAD.to_owned(),
        description: Some("jobs that failed for good, with the reason".to_owned()),
        subjects: vec!["rag.dlq.*".to_owned()],
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::Old,
        max_messages_per_subject: 1_000,
        max_bytes: 512 * MIB,
        max_age: 30 * DAY,
        // A dead letter is a job with more headers: the server's own limit is the limit.
        max_message_size: -1,
        duplicate_window: Duration::from_secs(120),
        storage: StorageType::File,
        num_replicas: replicas,
        allow_direct: true,
        ..Config::default()
    }
}

/// The name of a lane's consumer.
pub(super) fn lane_consumer(lane: usize) -> String {
    format!("ingest-{lane:02}")
}

/// The first lane also gets what no lane would: the server stores a wildcard that a publisher wrote literally
/// (`rag.ingest.*`, `rag.ingest.>`) without transforming its subject. Such jobs must be buried, not kept.
fn lane_filters(lane: usize) -> Vec<String> {
    let own = format!("rag.work.{lane}.*");
    if lane == 0 {
        vec![own, "rag.ingest.>".to_owned()]
    } else {
        vec![own]
    }
}

/// The consumers of the ingest stream, one a lane. The worker decides about retries, so `max_deliver` is unlimited, and
/// neither poisoned jobs that wait nor a flood that steps aside may stop the lane, so many may be out at once.
pub(super) fn consumers() -> Vec<pull::Config> {
    (0..LANES)
        .map(|lane| pull::Config {
            durable_name: Some(lane_consumer(lane)),
            filter_subject: match lane_filters(lane).as_slice() {
                [only] => only.clone(),
                _ => String::new(),
            },
            filter_subjects: match lane_filters(lane) {
                several if several.len() > 1 => several,
                _ => Vec::new(),
            },
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_deliver: -1,
            max_ack_pending: LANE_PENDING,
            ..pull::Config::default()
        })
        .collect()
}

/// What matters of a stream's configuration, by name: for comparing and for printing differences.
pub(super) fn stream_facts(config: &Config) -> Vec<(&'static str, String)> {
    let transform = config.subject_transform.as_ref();
    let republish = config.republish.as_ref();
    vec![
        ("subjects", config.subjects.join(",")),
        (
            "subject_transform",
            transform.map_or(String::new(), |t| {
                format!("{} -> {}", t.source, t.destination)
            }),
        ),
        (
            "republish",
            republish.map_or(String::new(), |r| {
                format!(
                    "{} -> {} headers_only={}",
                    r.source, r.destination, r.headers_only
                )
            }),
        ),
        ("retention", format!("{:?}", config.retention)),
        ("discard", format!("{:?}", config.discard)),
        (
            "discard_new_per_subject",
            config.discard_new_per_subject.to_string(),
        ),
        (
            "max_msgs_per_subject",
            config.max_messages_per_subject.to_string(),
        ),
        ("max_bytes", config.max_bytes.to_string()),
        ("max_age", format!("{:?}", config.max_age)),
        ("max_msg_size", config.max_message_size.to_string()),
        ("duplicate_window", format!("{:?}", config.duplicate_window)),
        ("storage", format!("{:?}", config.storage)),
        ("replicas", config.num_replicas.to_string()),
        ("allow_direct", config.allow_direct.to_string()),
        ("allow_rollup_hdrs", config.allow_rollup.to_string()),
        ("allow_msg_ttl", config.allow_message_ttl.to_string()),
        (
            "allow_msg_schedules",
            config.allow_message_schedules.to_string(),
        ),
        ("allow_atomic", config.allow_atomic_publish.to_string()),
    ]
}

fn filters(config: &pull::Config) -> String {
    let one = Some(&config.filter_subject).filter(|filter| !filter.is_empty());
    let all: Vec<&str> = one
        .into_iter()
        .chain(&config.filter_subjects)
        .map(String::as_str)
        .collect();
    all.join(",")
}

/// What matters of a consumer's configuration.
pub(super) fn consumer_facts(config: &pull::Config) -> Vec<(&'static str, String)> {
    vec![
        ("filter_subject", filters(config)),
        ("ack_policy", format!("{:?}", config.ack_policy)),
        ("ack_wait", format!("{:?}", config.ack_wait)),
        ("max_deliver", config.max_deliver.to_string()),
        ("max_ack_pending", config.max_ack_pending.to_string()),
    ]
}

/// The facts that differ: name, wanted, found.
pub(super) fn differences(
    wanted: Vec<(&'static str, String)>,
    found: Vec<(&'static str, String)>,
) -> Vec<(&'static str, String, String)> {
    let pairs = wanted.into_iter().zip(found);
    pairs
        .filter(|(wanted, found)| wanted.1 != found.1)
        .map(|(wanted, found)| (wanted.0, wanted.1, found.1))
        .collect()
}
