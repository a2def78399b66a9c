//! The stream of tracking events and its consumer as they should be. Must not know how they are compared or changed.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};

use super::topology::{ACK_WAIT, max_body};
use crate::model::TenantId;

pub(super) const TRACKING: &str = "RAG_TRACKING";
pub(super) const TRACKER: &str = "tracker";

const MIB: i64 = 1024 * 1024;
const DAY: Duration = Duration::from_secs(86_400);
/// Events that may be out at once: the batches of a few dozen workers, and poison that waits for another try.
const PENDING: i64 = 50_000;

/// Events wait here while SQL is down. When the stream is full it refuses new events instead of dropping old ones: what it has
/// acknowledged stays until it is stored, so `tracking.guarantee = required` keeps its promise, and the workers count and
/// report what finds no room.
pub(super) fn stream(max_payload: usize, replicas: usize) -> Config {
    Config {
        name: TRACKING.to_owned(),
        description: Some("retrievals that are not stored yet".to_owned()),
        subjects: vec!["rag.tracking.*".to_owned()],
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        // Some 200,000 events of the common size.
        max_bytes: 1_024 * MIB,
        max_age: 7 * DAY,
        max_message_size: i32::try_from(max_event(max_payload)).unwrap_or(i32::MAX),
        duplicate_window: Duration::from_secs(120),
        storage: StorageType::File,
        num_replicas: replicas,
        ..Config::default()
    }
}

/// One for all workers: batches go to whoever asks.
pub(super) fn consumer() -> pull::Config {
    pull::Config {
        durable_name: Some(TRACKER.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_deliver: -1,
        max_ack_pending: PENDING,
        ..pull::Config::default()
    }
}

/// The largest event with its headers: a dead letter of it still fits.
pub(super) fn max_event(max_payload: usize) -> usize {
    max_body(max_payload)
}

/// Where a tenant's events go.
pub(super) fn subject(tenant: &TenantId) -> String {
    format!("rag.tracking.{tenant}")
}
