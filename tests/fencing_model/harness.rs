//! How the fencing tests are written: job sets in a few words, a check that every promise holds, and
//! a check that one of them breaks when a rule is left out.

use std::collections::BTreeSet;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use crate::model::PROMISES;
use crate::rules::{Protocol, Simplification};
use crate::state::{Job, Status, Text, Version};

const THREADS: usize = 2;

pub fn put(document: usize, text: Text, metadata: u8) -> Job {
    let version = Version { text, metadata };
    Job::Put { document, version }
}

pub fn delete(document: usize) -> Job {
    Job::Delete { document }
}

/// Each job once, and the `duplicates` (sequences) once more.
fn protocol(jobs: &[Job], duplicates: &[u8]) -> Protocol {
    let once = 1..=u8::try_from(jobs.len()).expect("few jobs");
    Protocol {
        jobs: jobs.to_vec(),
        deliveries: once.chain(duplicates.iter().copied()).collect(),
        crashes: 1,
        simplification: None,
        expected: Vec::new(),
    }
}

/// Explores everything, with one crash; all promises hold and each `expected` status is reported in
/// some run.
pub fn holds(jobs: &[Job], duplicates: &[u8], expected: &[Status]) {
    holds_with_crashes(1, jobs, duplicates, expected);
}

pub fn holds_with_crashes(crashes: u8, jobs: &[Job], duplicates: &[u8], expected: &[Status]) {
    let mut protocol = protocol(jobs, duplicates);
    protocol.crashes = crashes;
    protocol.expected = expected.to_vec();
    explore(protocol).assert_properties();
}

/// With a rule left out, the promise is broken in some run.
pub fn breaks(without: Simplification, promise: &'static str, jobs: &[Job], duplicates: &[u8]) {
    let mut protocol = protocol(jobs, duplicates);
    protocol.simplification = Some(without);
    let found = HasDiscoveries::AnyOf(BTreeSet::from([promise]));
    let builder = protocol.checker().finish_when(found);
    let checker = builder.threads(THREADS).spawn_bfs().join();
    let run = checker.assert_any_discovery(promise).into_actions();
    println!("{without:?} breaks \"{promise}\": {jobs:?}, again {duplicates:?}, by {run:?}");
}

/// With a rule left out, the promise is broken in some run, and no other promise in any.
pub fn breaks_only(
    without: Simplification,
    promise: &'static str,
    jobs: &[Job],
    duplicates: &[u8],
) {
    let mut protocol = protocol(jobs, duplicates);
    protocol.simplification = Some(without);
    let checker = explore(protocol);
    let run = checker.assert_any_discovery(promise).into_actions();
    println!("{without:?} breaks only \"{promise}\": {jobs:?}, again {duplicates:?}, by {run:?}");
    for other in PROMISES.into_iter().filter(|other| *other != promise) {
        checker.assert_no_discovery(other);
    }
}

fn explore(protocol: Protocol) -> impl Checker<Protocol> {
    let started = Instant::now();
    let (jobs, deliveries) = (protocol.jobs.clone(), protocol.deliveries.clone());
    let checker = protocol.checker().threads(THREADS).spawn_bfs().join();
    let (states, elapsed) = (checker.unique_state_count(), started.elapsed());
    println!("{states} states in {elapsed:?}: {jobs:?}, delivered {deliveries:?}");
    checker
}
