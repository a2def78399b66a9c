//! Measurements, run by hand: `cargo nextest run --all-features --test it --run-ignored only -E 'test(statistics::load)' --no-capture`.

use std::time::Instant;

use ragbus::testing::contract::tracker::{Tracked, busy_record};

use super::Tracking;
use super::rows::{BEGIN, WINDOW, corpus};

const COUNT: usize = 100_000;
/// Half a second between two: all are in the window.
const APART: i64 = 500_000;

/// Retrievals of 5,000 questions and 20,000 documents.
async fn fill(tracker: &Tracked) {
    let corpus = corpus("busy", "c");
    let numbers: Vec<usize> = (0..COUNT).collect();
    for batch in numbers.chunks(500) {
        let at = |n: usize| BEGIN + n as i64 * APART;
        let batch: Vec<_> = batch
            .iter()
            .map(|n| busy_record(&corpus, at(*n), *n))
            .collect();
        tracker.record(&batch).await.expect("stored");
    }
}

fn measure(tracking: &Tracking) {
    let timed = |what: &str, arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.extend([
            "--tenant", "busy", "--since", WINDOW[0], "--until", WINDOW[1],
        ]);
        let started = Instant::now();
        let output = tracking.command(&all).output().expect("runs");
        let err = String::from_utf8_lossy(&output.stderr);
        let end = if output.status.success() { "" } else { &err };
        println!("{what}: {:.2?} {end}", started.elapsed());
    };
    for view in [
        "totals",
        "timeline",
        "latencies",
        "documents",
        "poor-documents",
        "queries",
        "zero-hit",
        "low-relevance",
        "clusters",
        "feedback",
        "overview",
    ] {
        timed(view, &["stats", "--corpus", "c", "--json", "--view", view]);
    }
    let path = tracking.service.dir.path().join("busy.jsonl");
    let path = path.to_str().expect("text");
    timed("audit export", &["audit", "export", "--out", path]);
    let started = Instant::now();
    let checked = tracking
        .command(&["audit", "verify", path])
        .output()
        .expect("runs");
    assert!(checked.status.success());
    let size = std::fs::metadata(path).expect("there").len();
    println!("audit verify of {size} bytes: {:.2?}", started.elapsed());
}

#[ignore = "a measurement"]
#[tokio::test(flavor = "multi_thread")]
async fn of_many_retrievals_over_sqlite() {
    let (tracking, tracker) = Tracking::sqlite().await;
    fill(&tracker).await;
    tokio::task::block_in_place(|| measure(&tracking));
}

#[ignore = "a measurement"]
#[tokio::test(flavor = "multi_thread")]
async fn of_many_retrievals_over_postgres() {
    let (tracking, tracker) = Tracking::postgres().await;
    fill(&tracker).await;
    tokio::task::block_in_place(|| measure(&tracking));
}
