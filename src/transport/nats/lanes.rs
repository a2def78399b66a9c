//! Which lane to pull from next: round robin over lanes that may have work. Must not know NATS.
//!
//! A hint (a header-only copy the stream republishes) marks a lane; so does a pull that found something. A look at all lanes
//! every second catches redeliveries and lost hints.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

const LOOK_EVERYWHERE: Duration = Duration::from_secs(1);

/// Lanes that may have work, in the order they are looked at.
#[derive(Debug)]
pub(super) struct Lanes {
    count: usize,
    marked: Mutex<VecDeque<usize>>,
    changed: Notify,
}

impl Lanes {
    /// All lanes marked: what is there at start is found at once.
    pub(super) fn new(count: usize) -> Self {
        Self {
            count,
            marked: Mutex::new((0..count).collect()),
            changed: Notify::new(),
        }
    }

    /// A lane may have work.
    pub(super) fn mark(&self, lane: usize) {
        let mut marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        if lane < self.count && !marked.contains(&lane) {
            marked.push_back(lane);
            drop(marked);
            self.changed.notify_one();
        }
    }

    /// The next lane to look at; waits for a mark, at most a second.
    pub(super) async fn next(&self) -> usize {
        loop {
            if let Some(lane) = self.pop() {
                return lane;
            }
            let waited = tokio::time::timeout(LOOK_EVERYWHERE, self.changed.notified()).await;
            if waited.is_err() {
                (0..self.count).for_each(|lane| self.mark(lane));
            }
        }
    }

    fn pop(&self) -> Option<usize> {
        let mut marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        marked.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lanes_take_turns_and_a_mark_counts_once() {
        let lanes = Lanes::new(3);
        assert_eq!(
            [lanes.next().await, lanes.next().await, lanes.next().await],
            [0, 1, 2]
        );
        lanes.mark(2);
        lanes.mark(2);
        lanes.mark(0);
        lanes.mark(9);
        assert_eq!([lanes.next().await, lanes.next().await], [2, 0]);
        assert_eq!(lanes.pop(), None);
    }

    #[tokio::test]
    async fn a_quiet_second_looks_everywhere() {
        let lanes = Lanes::new(2);
        lanes.next().await;
        lanes.next().await;
        assert_eq!([lanes.next().await, lanes.next().await], [0, 1]);
    }
}
