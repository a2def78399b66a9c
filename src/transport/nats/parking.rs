//! Jobs put aside for a while: given back to the server with a delay, and called back when their time has come. Must not know
//! why.
//!
//! A parked job costs this worker a few bytes, never its body. Should the worker die, the server brings it back by itself.
//! The server counts each delivery, parked ones too; they are no attempts, so they are counted here and taken off again.
//! Another worker can't know of ours: to it a job may look older than it is, which lengthens a delay and changes no outcome
//! (crashes and internal errors are counted by the registry).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{AckKind, Message};

use super::topology::ACK_WAIT;
use super::turns::ROUND_LIMIT;

/// So long the server keeps a parked job. Longer than any round, so that none comes back within its own.
const PARKED: Duration = Duration::from_secs(20);
const _: () =
    assert!(ROUND_LIMIT.as_secs() < PARKED.as_secs() && PARKED.as_secs() < ACK_WAIT.as_secs());
/// Later than this a call could meet a delivery to another worker: the server brings such a job back by itself.
const CALLABLE: Duration = ROUND_LIMIT.saturating_add(Duration::from_secs(2));
/// Jobs whose parked deliveries are remembered; the oldest are forgotten first.
const REMEMBERED: usize = 32_768;

/// Jobs that are parked, by lane, and how often each was.
pub(super) struct Parking {
    lanes: Vec<Vec<(Acker, Instant)>>,
    times: BTreeMap<u64, u64>,
}

impl Parking {
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            lanes: (0..lanes).map(|_| Vec::new()).collect(),
            times: BTreeMap::new(),
        }
    }

    /// How many deliveries of this job ended here without an attempt.
    pub(super) fn times(&self, sequence: u64) -> u64 {
        self.times.get(&sequence).copied().unwrap_or(0)
    }

    /// Puts a job aside.
    pub(super) async fn park(&mut self, lane: usize, sequence: u64, message: Message) {
        let (_body, acker) = message.split();
        if let Err(error) = acker.ack_with(AckKind::Nak(Some(PARKED))).await {
            // It comes back after the server's patience.
            tracing::debug!(error = %error, "a job could not be parked");
        }
        *self.times.entry(sequence).or_default() += 1;
        if self.times.len() > REMEMBERED {
            self.times.pop_first();
        }
        if let Some(parked) = self.lanes.get_mut(lane) {
            parked.push((acker, Instant::now()));
        }
    }

    /// Whether a lane has parked jobs.
    pub(super) fn holds(&self, lane: usize) -> bool {
        self.lanes
            .get(lane)
            .is_some_and(|parked| !parked.is_empty())
    }

    /// Calls a lane's jobs back, in the order they were parked in.
    pub(super) async fn call_back(&mut self, lane: usize) {
        let Some(parked) = self.lanes.get_mut(lane) else {
            return;
        };
        for (acker, since) in parked.drain(..) {
            if since.elapsed() > CALLABLE {
                continue;
            }
            if let Err(error) = acker.ack_with(AckKind::Nak(None)).await {
                tracing::debug!(error = %error, "a job could not be called back");
            }
        }
    }

    /// Calls everything back.
    pub(super) async fn call_all_back(&mut self) {
        for lane in 0..self.lanes.len() {
            self.call_back(lane).await;
        }
    }
}
