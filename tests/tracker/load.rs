//! Measurements on a real server, run by hand: `cargo nextest run --all-features --run-ignored only -E 'test(load::)' --no-capture`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ragbus::model::{
    CorpusRef, PurgeScope, RecordPosition, RetrievalRecord, TimeWindow, Timestamp,
};
use ragbus::testing::contract::tracker::{Tracked, a_corpus, busy_record};

/// Writes `count` retrievals from `since` on, a batch after the other in each of two writers.
async fn fill(
    tracker: &Tracked,
    corpus: &CorpusRef,
    since: i64,
    count: usize,
    batch: usize,
) -> Duration {
    let made: Vec<Vec<RetrievalRecord>> = (0..count.div_ceil(batch))
        .map(|b| {
            (b * batch..(b + 1) * batch)
                .map(|n| busy_record(corpus, since + n as i64, n))
                .collect()
        })
        .collect();
    let (left, right) = made.split_at(made.len() / 2);
    let write = |batches: Vec<Vec<RetrievalRecord>>| {
        let tracker = Arc::clone(tracker);
        tokio::spawn(async move {
            for batch in batches {
                tracker.record(&batch).await.expect("stored");
            }
        })
    };
    let started = Instant::now();
    let writers = [write(left.to_vec()), write(right.to_vec())];
    for writer in writers {
        writer.await.expect("ran");
    }
    started.elapsed()
}

async fn throughput(tracker: Tracked, name: &str) {
    let corpus = a_corpus();
    for (count, batch) in [(10_000, 500), (50_000, 500), (50_000, 1_000), (20_000, 100)] {
        let took = fill(&tracker, &corpus, 0, count, batch).await;
        let rate = count as f64 / took.as_secs_f64();
        println!("{name}: {count} retrievals of 10 chunks in batches of {batch}: {rate:.0}/s");
    }
    for (name, took) in analysis(&tracker, &corpus).await {
        println!("  {name}: {took:.2?}");
    }
}

async fn analysis(tracker: &Tracked, corpus: &CorpusRef) -> Vec<(&'static str, Duration)> {
    let mut all = Vec::new();
    let mut started = Instant::now();
    let mut lap = |name| {
        all.push((name, started.elapsed()));
        started = Instant::now();
    };
    let window = TimeWindow::ALL;
    tracker
        .document_stats(corpus, window, Default::default(), 100)
        .await
        .expect("counted");
    lap("documents");
    tracker
        .query_stats(corpus, window, Default::default(), 100)
        .await
        .expect("counted");
    lap("queries");
    tracker
        .query_documents(corpus, window, 500)
        .await
        .expect("counted");
    lap("documents of questions");
    tracker.totals(corpus, window).await.expect("counted");
    lap("totals");
    tracker.latencies(corpus, window).await.expect("counted");
    lap("latencies");
    tracker
        .retrieved_documents(corpus, window, None, 10_000)
        .await
        .expect("counted");
    lap("retrieved documents");
    let page = tracker
        .records(&corpus.tenant, None, window, None, 1_000)
        .await
        .expect("read");
    let after = page.last().map(RecordPosition::of);
    tracker
        .records(&corpus.tenant, None, window, after, 1_000)
        .await
        .expect("read");
    lap("two pages of 1,000 records");
    tracker
        .purge_forecast(&PurgeScope::everything(&corpus.tenant))
        .await
        .expect("counted");
    lap("forecast of a purge");
    all
}

async fn inserts(
    tracker: &Tracked,
    corpus: &CorpusRef,
    until: impl Fn(usize) -> bool,
) -> Vec<Duration> {
    let mut took = Vec::new();
    while until(took.len()) {
        let batch: Vec<_> = (0..50)
            .map(|n| busy_record(corpus, i64::MAX / 2, n))
            .collect();
        let started = Instant::now();
        tracker.record(&batch).await.expect("stored");
        took.push(started.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    took.sort();
    took
}

/// With ten chunks and seven documents each, a million rows and more.
const OLD: usize = 60_000;

async fn purge_beside_inserts(tracker: Tracked, name: &str) {
    let corpus = a_corpus();
    fill(&tracker, &corpus, 0, OLD, 500).await;
    let percentiles = |took: &[Duration]| {
        (
            took[took.len() / 2],
            took[took.len() * 99 / 100],
            took.len(),
        )
    };
    let quiet = inserts(&tracker, &corpus, |n| n < 300).await;
    println!(
        "{name}: inserts of 50 alone: p50, p99, n = {:.2?}",
        percentiles(&quiet)
    );
    let scope = PurgeScope::of_corpus(&corpus, Timestamp::from_micros(1_000_000));
    let purger = Arc::clone(&tracker);
    let started = Instant::now();
    let purge = tokio::spawn(async move { purger.purge_older_than(&scope).await.expect("purged") });
    let busy = inserts(&tracker, &corpus, |_| !purge.is_finished()).await;
    println!(
        "{name}: beside a purge: p50, p99, n = {:.2?}",
        percentiles(&busy)
    );
    let removed = purge.await.expect("ran");
    println!("{name}: {removed:?} in {:.2?}", started.elapsed());
    assert_eq!(removed.retrievals, OLD as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn throughput_of_postgres() {
    let (tracker, _keep) = super::postgres().await;
    throughput(tracker, "Postgres").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn throughput_of_sqlite() {
    let (tracker, _keep) = super::sqlite().await;
    throughput(tracker, "SQLite").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn purge_of_postgres() {
    let (tracker, _keep) = super::postgres().await;
    purge_beside_inserts(tracker, "Postgres").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn purge_of_sqlite() {
    let (tracker, _keep) = super::sqlite().await;
    purge_beside_inserts(tracker, "SQLite").await;
}
