//! `kill -9` of workers, nats-server and Postgres, and restarts of the store, at moments by chance during many jobs:
//! nothing is lost, nothing is there twice, nothing deleted comes back.
//!
//! `RAGBUS_CHAOS_JOBS` and `RAGBUS_CHAOS_SEED` set the number of jobs and the seed; both are printed.

mod disturber;
mod oracle;
mod publisher;
mod restart;
mod rows;
mod script;

use std::sync::Arc;
use std::time::Instant;

use crate::cluster::Cluster;
use crate::harness::*;
use disturber::Disturber;
use oracle::Oracle;
use publisher::{STILL, Sent, callers, count, publish, reached};
use script::{Job, script};

/// Enough for one kill of each kind, in the time that a test run has.
const JOBS: usize = 1_000;
const WORKERS: usize = 3;

fn set(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_killed_nothing_is_lost_doubled_or_resurrected() {
    let seed = set("RAGBUS_CHAOS_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    let jobs = set("RAGBUS_CHAOS_JOBS").map_or(JOBS, |jobs| jobs as usize);
    eprintln!("RAGBUS_CHAOS_SEED={seed} RAGBUS_CHAOS_JOBS={jobs}");
    let started = Instant::now();
    let mut disturber = Disturber::start(Cluster::start().await, WORKERS, seed).await;
    let script = Arc::new(script(seed, jobs));
    let callers = callers(&disturber.cluster.nats).await;
    let sent = carried_out(&mut disturber, &callers, &script).await;
    eprintln!("all done after {:.0?}", started.elapsed());
    let (oracle, cluster) = (Oracle::new(&script, &sent), &disturber.cluster);
    oracle.check_results(&callers, &cluster.nats).await;
    oracle.check_catalog(&callers).await;
    oracle.check_points(cluster);
    oracle.check_verify(cluster);
    oracle.check_rows(cluster).await;
    oracle.check_retrieval(&callers).await;
    eprintln!("checked after {:.0?}", started.elapsed());
}

/// Everything published, disturbed, finished and acknowledged.
async fn carried_out(
    disturber: &mut Disturber,
    callers: &Arc<Vec<Caller>>,
    script: &Arc<Vec<Job>>,
) -> Vec<Sent> {
    let finished = count(Arc::clone(callers));
    let publishing = publish(Arc::clone(callers), Arc::clone(script), finished.clone());
    let publishing = tokio::spawn(publishing);
    disturber.run(script.len(), finished.clone()).await;
    let sent = publishing.await.expect("published");
    reached(&finished, script.len()).await;
    let nats = &disturber.cluster.nats;
    eventually("every job is acknowledged", STILL, || async {
        (nats.waiting("RAG_INGEST").await == 0).then_some(())
    })
    .await;
    let of = |what: fn(&Sent) -> bool| sent.iter().filter(|sent| what(sent)).count();
    eprintln!(
        "{} sent again, {} known already, {} stored twice",
        of(|sent| sent.tries > 1),
        of(|sent| sent.duplicate),
        of(|sent| sent.twice),
    );
    sent
}
