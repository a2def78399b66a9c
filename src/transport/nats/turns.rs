//! Whose turn it is inside a lane. Tenants share lanes, and a lane gives its jobs in the order they came: a tenant that
//! floods it would make the others wait for all of its backlog. Pure: must not know NATS, nor how a job is put aside.
//!
//! Tenants of a lane take turns of a few jobs each. One that had its turn is asked to step aside (its jobs are parked) while
//! the lane is known to hold jobs of somebody who had none, so that the jobs behind it are reached. That is a *round*; it ends
//! when nobody else is known to wait, when the lane gives nothing more, or after a while. Then everything that was parked
//! comes back, in its old order. What others wait is known from hints; now and then a round is begun without, because hints
//! can get lost. A pause after each round, longer than the round was, bounds what is spent on looking.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A round longer than this is broken off: what is parked must come back before the server brings it back.
pub(super) const ROUND_LIMIT: Duration = Duration::from_secs(15);
/// The shortest pause between two rounds of a lane.
const PAUSE: Duration = Duration::from_millis(500);
/// A pause is so many times as long as the round before it.
const PAUSE_FACTOR: u32 = 4;
/// Without any hint a round is begun this often.
const BLIND: Duration = Duration::from_secs(30);

/// What becomes of a job that was pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is carried out.
    Run,
    /// It steps aside until the round is over.
    Park,
}

/// A round that is going on.
#[derive(Debug)]
struct Round {
    began: Instant,
    /// Begun without a hint: it goes on until the lane gives nothing more.
    blind: bool,
}

/// One lane. Tenants are told apart by the subjects of their jobs.
#[derive(Debug)]
struct Lane {
    /// Jobs that each tenant had in this round.
    taken: HashMap<String, u32>,
    /// The newest job of each tenant that a hint told of and that was not pulled here.
    hinted: HashMap<String, u64>,
    round: Option<Round>,
    /// No round begins before.
    quiet_until: Instant,
    /// When a round may begin without a hint.
    blind_at: Instant,
}

/// The turns of every lane, as this worker sees them. Other workers have rounds of their own, which is no harm: what one
/// parks the others don't get, so they reach what is behind it too.
#[derive(Debug)]
pub(super) struct Turns {
    quantum: u32,
    lanes: Vec<Lane>,
}

impl Turns {
    /// Turns of `quantum` jobs. At first nothing is known, so the first round may be a blind one.
    pub(super) fn new(lanes: usize, quantum: usize, now: Instant) -> Self {
        let lane = || Lane {
            taken: HashMap::new(),
            hinted: HashMap::new(),
            round: None,
            quiet_until: now,
            blind_at: now,
        };
        Self {
            quantum: u32::try_from(quantum).unwrap_or(u32::MAX).max(1),
            lanes: (0..lanes).map(|_| lane()).collect(),
        }
    }

    /// The lane got this job of this tenant.
    pub(super) fn hint(&mut self, lane: usize, tenant: &str, sequence: u64) {
        let Some(lane) = self.lanes.get_mut(lane) else {
            return;
        };
        match lane.hinted.get_mut(tenant) {
            Some(newest) => *newest = sequence.max(*newest),
            None => {
                lane.hinted.insert(tenant.to_owned(), sequence);
            }
        }
    }

    /// The lane gave this job of this tenant.
    pub(super) fn turn(&mut self, lane: usize, tenant: &str, sequence: u64, now: Instant) -> Turn {
        let quantum = self.quantum;
        let Some(lane) = self.lanes.get_mut(lane) else {
            return Turn::Run;
        };
        if lane
            .hinted
            .get(tenant)
            .is_some_and(|newest| sequence >= *newest)
        {
            lane.hinted.remove(tenant);
        }
        let taken = lane.taken.get(tenant).copied().unwrap_or(0);
        if taken >= quantum {
            if lane.looks_on(tenant, quantum, now) {
                return Turn::Park;
            }
            lane.end(now);
        }
        *lane.taken.entry(tenant.to_owned()).or_default() += 1;
        Turn::Run
    }

    /// The lane gives nothing now.
    pub(super) fn exhausted(&mut self, lane: usize, now: Instant) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            // Whoever was hinted at has been served here or by another worker, or waits for a retry.
            lane.hinted.clear();
            lane.blind_at = now + BLIND;
            lane.end(now);
        }
    }

    /// Whether a round is going on: while none is, nothing stays parked.
    pub(super) fn in_round(&self, lane: usize) -> bool {
        self.lanes
            .get(lane)
            .is_some_and(|lane| lane.round.is_some())
    }
}

impl Lane {
    /// Whether there is somebody else to look for.
    fn looks_on(&mut self, tenant: &str, quantum: u32, now: Instant) -> bool {
        let known = self.hinted.keys().any(|other| {
            other != tenant && self.taken.get(other).is_none_or(|taken| *taken < quantum)
        });
        match &self.round {
            Some(round) => (known || round.blind) && now.duration_since(round.began) < ROUND_LIMIT,
            None if now < self.quiet_until => false,
            None => {
                let blind = now >= self.blind_at;
                if known || blind {
                    self.round = Some(Round { began: now, blind });
                }
                known || blind
            }
        }
    }

    fn end(&mut self, now: Instant) {
        self.taken.clear();
        if let Some(round) = self.round.take() {
            let took = now.duration_since(round.began);
            self.quiet_until = now + (took * PAUSE_FACTOR).max(PAUSE);
            if round.blind {
                self.blind_at = now + BLIND;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: usize = 4;

    /// One lane that nobody looked into blindly just now.
    struct Desk {
        turns: Turns,
        now: Instant,
        sequence: u64,
    }

    impl Desk {
        fn new() -> Self {
            let now = Instant::now();
            let mut turns = Turns::new(1, QUANTUM, now);
            turns.exhausted(0, now);
            Self {
                turns,
                now,
                sequence: 0,
            }
        }

        fn give(&mut self, tenant: &str) -> Turn {
            self.sequence += 1;
            self.turns.turn(0, tenant, self.sequence, self.now)
        }

        /// How many of `n` jobs in a row are carried out.
        fn run(&mut self, tenant: &str, n: usize) -> usize {
            (0..n).filter(|_| self.give(tenant) == Turn::Run).count()
        }

        fn wait(&mut self, time: Duration) {
            self.now += time;
        }
    }

    #[test]
    fn a_tenant_alone_never_steps_aside() {
        let mut desk = Desk::new();
        desk.turns.hint(0, "a", 5_000);
        assert_eq!(desk.run("a", 1_000), 1_000);
        assert!(!desk.turns.in_round(0));
    }

    #[test]
    fn a_flood_steps_aside_for_one_job_and_goes_on_behind_it() {
        let mut desk = Desk::new();
        assert_eq!(desk.run("a", 3), 3);
        desk.turns.hint(0, "b", 1_000);
        assert_eq!(desk.run("a", 900), 1, "its turn was nearly over");
        assert!(desk.turns.in_round(0));
        desk.sequence = 999;
        assert_eq!(desk.give("b"), Turn::Run);
        assert_eq!(desk.give("a"), Turn::Run, "nobody else is left");
        assert!(!desk.turns.in_round(0));
    }

    #[test]
    fn everybody_gets_a_turn_in_a_round() {
        let mut desk = Desk::new();
        for other in ["b", "c"] {
            desk.turns.hint(0, other, 5_000);
        }
        assert_eq!(desk.run("a", 100), QUANTUM);
        assert_eq!(desk.run("b", 100), QUANTUM, "c waits");
        assert_eq!(desk.run("c", 3), 3);
        assert_eq!(desk.run("b", 10), 0, "c has one more to go");
        assert_eq!(desk.run("c", 1), 1);
        assert_eq!(desk.run("b", 10), 10, "a round is over and a pause begins");
    }

    #[test]
    fn a_round_ends_with_the_lane_and_is_followed_by_a_pause() {
        let mut desk = Desk::new();
        desk.turns.hint(0, "b", 5_000);
        assert_eq!(desk.run("a", 10), QUANTUM);
        desk.wait(Duration::from_secs(1));
        desk.turns.exhausted(0, desk.now);
        assert!(!desk.turns.in_round(0), "b was another worker's");
        desk.turns.hint(0, "c", 6_000);
        assert_eq!(desk.run("a", 100), 100, "a pause of four seconds");
        desk.wait(Duration::from_millis(4_100));
        assert_eq!(desk.run("a", 100), 0, "its turn is over, and c waits");
    }

    #[test]
    fn a_round_that_takes_too_long_is_broken_off() {
        let mut desk = Desk::new();
        desk.turns.hint(0, "b", 5_000);
        assert_eq!(desk.run("a", 10), QUANTUM);
        desk.wait(ROUND_LIMIT);
        assert_eq!(desk.run("a", 100), 100);
        assert!(!desk.turns.in_round(0));
    }

    #[test]
    fn lost_hints_are_made_up_for_now_and_then() {
        let mut desk = Desk::new();
        assert_eq!(desk.run("a", 100), 100);
        desk.wait(BLIND);
        desk.run("a", QUANTUM);
        assert_eq!(desk.run("a", 100), 0, "it looks without a hint");
        assert_eq!(desk.run("b", 1), 1);
        assert_eq!(desk.run("a", 100), 0, "there may be more");
        desk.turns.exhausted(0, desk.now);
        desk.wait(PAUSE);
        assert_eq!(desk.run("a", 100), 100, "and rests");
    }

    #[test]
    fn what_is_hinted_at_is_forgotten_when_it_comes() {
        let mut desk = Desk::new();
        desk.turns.hint(0, "b", 2);
        assert_eq!(desk.run("b", 2), 2);
        assert_eq!(desk.run("a", 100), 100);
        assert!(desk.turns.lanes[0].hinted.is_empty());
        assert_eq!(
            desk.turns.turn(9, "a", 1, desk.now),
            Turn::Run,
            "no such lane"
        );
    }
}
