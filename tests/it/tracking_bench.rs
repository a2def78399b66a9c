//! How fast records reach the tables, and what tracking costs a reply. Run by hand; `docs/benchmarks.md` has commands and results.

use std::time::{Duration, Instant};

use ragbus::model::{RetrievalId, RetrievalRecord};
use ragbus::testing::contract::tracker::{a_corpus, busy_record};
use ragbus::wire::retrieval_recorded;

use crate::harness::*;
use crate::postgres_server::PostgresServer;

const EVENTS: usize = 100_000;
/// Publishes on their way at once.
const WINDOW: usize = 500;

/// Fills the stream with events of a busy service, each different.
async fn fill(nats: &Nats, events: usize) {
    let corpus = a_corpus();
    let client = nats.client().await;
    let jetstream = async_nats::jetstream::new(client);
    let subject = format!("rag.tracking.{}", corpus.tenant);
    let mut number = 0;
    while number < events {
        let mut acks = Vec::with_capacity(WINDOW);
        for _ in 0..WINDOW {
            number += 1;
            let id = uuid::Uuid::now_v7().as_u128();
            let record = RetrievalRecord {
                id: RetrievalId::from_u128(id),
                ..busy_record(&corpus, 0, number)
            };
            let body = prost::Message::encode_to_vec(&retrieval_recorded(&record));
            let sent = jetstream.publish(subject.clone(), body.into()).await;
            acks.push(std::future::IntoFuture::into_future(sent.expect("sent")));
        }
        for ack in futures::future::join_all(acks).await {
            ack.expect("stored");
        }
    }
}

async fn throughput(what: &str, events: usize, change: impl FnOnce(WorkerSetup) -> WorkerSetup) {
    let nats = Nats::start().await;
    let dir = tempfile::tempdir().expect("a folder");
    let data = dir.path().join("data");
    std::fs::create_dir_all(&data).expect("a folder");
    nats.set_up(&data);
    fill(&nats, events).await;
    let setup = WorkerSetup::new(&nats.url(), dir.path()).env("RAGBUS__WORKER__ROLES", "tracker");
    let worker = change(setup).start().await;
    let recorded = || worker.metric("ragbus_tracking_recorded_total");
    let (before, started) = (recorded().await, Instant::now());
    let total = eventually("all of them", Duration::from_secs(280), || async {
        let now = recorded().await;
        (now >= events as f64).then_some(now)
    })
    .await;
    let rate = (total - before) / started.elapsed().as_secs_f64();
    println!("{what}: {rate:.0} records/s from the stream to the tables");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a benchmark"]
async fn records_a_second_on_postgres() {
    let postgres = tokio::task::spawn_blocking(PostgresServer::start);
    let postgres = postgres.await.expect("a server");
    let url = postgres.url();
    throughput("Postgres", EVENTS, |s| s.env("RAGBUS__SQL__URL", &url)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a benchmark"]
async fn records_a_second_on_sqlite() {
    throughput("SQLite", EVENTS / 5, |s| s).await;
}

/// Two workers over two servers, one with tracking and one without, asked in turns.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a benchmark"]
async fn what_tracking_costs_a_reply() {
    const ROUNDS: usize = 2_000;
    let texts: Vec<String> = (0..200).map(|n| format!("owl number {n} hunts")).collect();
    for guarantee in ["best_effort", "required"] {
        let tracked = Service::with(|s| s.env("RAGBUS__TRACKING__GUARANTEE", guarantee)).await;
        let untracked = Service::with(|s| s.env("RAGBUS__TRACKING__ENABLED", "false")).await;
        for service in [&tracked, &untracked] {
            service.t1.indexed(&put_chunks("c", "d", &texts)).await;
        }
        let mut took = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let mut order = [(0, &tracked), (1, &untracked)];
            // By chance: what a record costs later must not always meet the same one.
            order.rotate_left(usize::from(uuid::Uuid::new_v4().as_bytes()[0] % 2));
            for (place, service) in order {
                let started = Instant::now();
                service.t1.retrieve("c", "owls that hunt").await;
                took[place].push(started.elapsed());
            }
        }
        took.iter_mut().for_each(|times| times.sort());
        let at = |side: usize, share: usize| took[side][ROUNDS * share / 100].as_secs_f64() * 1e3;
        for share in [50, 99] {
            let (on, off) = (at(0, share), at(1, share));
            let ratio = on / off;
            println!(
                "{guarantee} p{share}: {on:.2} ms with, {off:.2} ms without, ratio {ratio:.3}"
            );
        }
    }
}
