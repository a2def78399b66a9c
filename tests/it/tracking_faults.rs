//! What tracking does when what it needs is away: the stream, its room, NATS, SQL. Replies go on, and what was promised is kept.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ragbus::adapters::postgres::PostgresRegistry;
use ragbus::model::{RetrievalId, RetrievalRecord, Timestamp, TrackedEnd};
use ragbus::testing::contract::tracker::busy_record;
use ragbus::wire::retrieval_recorded;
use serde_json::{Value, json};

use crate::harness::*;
use crate::postgres_server::PostgresServer;
use crate::tracking::{id_of, records, so_many, sqlite};

fn question() -> Value {
    json!({ "corpus": "c", "query": "owls" })
}

async fn delete_stream(nats: &Nats) {
    let client = nats.client().await;
    let jetstream = async_nats::jetstream::new(client);
    jetstream
        .delete_stream("RAG_TRACKING")
        .await
        .expect("deleted");
}

fn answered(all: &[RetrievalRecord]) -> BTreeSet<RetrievalId> {
    let answered = all
        .iter()
        .filter(|r| matches!(r.end, TrackedEnd::Answered(_)));
    answered.map(|r| r.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn best_effort_replies_without_its_stream_and_counts_what_it_drops() {
    const ASKED: usize = 300;
    let service = Service::with(|s| s.env("RAGBUS__TRACKING__BUFFER", "10")).await;
    delete_stream(&service.nats).await;
    let mut given = BTreeSet::new();
    for _ in 0..ASKED {
        given.insert(id_of(&service.t1.retrieve("c", "owls").await));
    }
    let dropped = service.worker.metrics().await;
    let dropped = dropped.lines().find(|line| {
        line.starts_with("ragbus_tracking_events") && line.contains("outcome=\"dropped\"")
    });
    let dropped = dropped.and_then(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    let dropped = dropped.expect("the buffer and the window are full");
    assert!(dropped > 0 && dropped < ASKED, "{dropped}");
    assert!(service.worker.log().contains("the buffer is full"));
    service.nats.set_up(&service.dir.path().join("data"));
    let tracker = sqlite(&service).await;
    let kept = so_many(&tracker, "t1", ASKED - dropped).await;
    assert!(answered(&kept).is_subset(&given));
    assert_eq!(service.worker.readiness().await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn required_answers_only_with_a_record() {
    let service = Service::with(|s| s.env("RAGBUS__TRACKING__GUARANTEE", "required")).await;
    let t1 = &service.t1;
    let mut given = BTreeSet::from([id_of(&t1.retrieve("c", "owls").await)]);
    delete_stream(&service.nats).await;
    let refused = t1.ask("retrieve", &question()).await;
    assert_eq!(refused.code, 503);
    assert_eq!(refused.json()["kind"], "required_stage_degraded");
    assert_eq!(refused.json()["stage"], "tracking");
    let hurried = [("Rag-Timeout-Ms", "300")];
    let started = Instant::now();
    assert_eq!(
        t1.ask_with("retrieve", &hurried, &question()).await.code,
        503
    );
    assert!(started.elapsed() < Duration::from_secs(3));
    service.nats.set_up(&service.dir.path().join("data"));
    given.insert(id_of(&t1.retrieve("c", "owls").await));
    // The refused ones left their records in the buffer.
    let tracker = sqlite(&service).await;
    let all = so_many(&tracker, "t1", 4).await;
    assert_eq!(answered(&all), given);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_stream_refuses_what_is_new_and_keeps_what_it_has() {
    for (guarantee, code) in [("required", 503), ("best_effort", 0)] {
        let service = Service::with(|s| {
            s.env("RAGBUS__TRACKING__GUARANTEE", guarantee)
                .env("RAGBUS__WORKER__ROLES", "ingest,retrieve")
        })
        .await;
        let client = service.nats.client().await;
        let jetstream = async_nats::jetstream::new(client);
        let stream = jetstream.get_stream("RAG_TRACKING").await.expect("there");
        let small = async_nats::jetstream::stream::Config {
            max_bytes: 2_000,
            ..stream.cached_info().config.clone()
        };
        jetstream.update_stream(small).await.expect("updated");
        let first = id_of(&service.t1.retrieve("c", "owls").await);
        let mut last = 0;
        for _ in 0..20 {
            last = service.t1.ask("retrieve", &question()).await.code;
        }
        assert_eq!(last, code, "{guarantee}");
        let held = service.nats.messages("RAG_TRACKING").await;
        let oldest = held[0].headers.get("Nats-Msg-Id").expect("an id");
        assert_eq!(oldest.as_str(), first.to_string(), "nothing is pushed out");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_nats_server_costs_no_record_of_an_answer() {
    let mut service = Service::start().await;
    let mut given = BTreeSet::new();
    for _ in 0..20 {
        given.insert(id_of(&service.t1.retrieve("c", "owls").await));
    }
    service.nats.kill();
    eventually("the worker is not ready", PATIENCE, || async {
        (service.worker.readiness().await.0 == 503).then_some(())
    })
    .await;
    service.nats.restart().await;
    service.worker.ready().await;
    let t1 = Caller::of(&service.nats, "t1").await;
    for _ in 0..20 {
        given.insert(id_of(&t1.retrieve("c", "owls").await));
    }
    let tracker = sqlite(&service).await;
    let all = so_many(&tracker, "t1", given.len()).await;
    assert_eq!(answered(&all), given);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_goes_away_empties_its_buffer_first() {
    const ASKED: u64 = 200;
    let mut service = Service::with(|s| s.env("RAGBUS__WORKER__ROLES", "ingest,retrieve")).await;
    let asked = (0..ASKED).map(|_| service.t1.retrieve("c", "owls"));
    futures::future::join_all(asked).await;
    service.worker.terminate();
    assert!(service.worker.ended(PATIENCE).await.success());
    assert_eq!(service.nats.waiting("RAG_TRACKING").await, ASKED);
}

/// Two workers track over one Postgres that goes away under load and comes back: after 12 s, or as many as
/// `RAGBUS_OUTAGE_SECONDS` says.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_may_stop_and_no_record_is_lost() {
    let mut postgres = tokio::task::spawn_blocking(PostgresServer::start)
        .await
        .expect("a server");
    let url = postgres.url();
    let service = Service::with(|s| s.env("RAGBUS__SQL__URL", &url)).await;
    let other = service.dir.path().join("other");
    std::fs::create_dir_all(&other).expect("a folder");
    let second = WorkerSetup::new(&service.nats.url(), &other)
        .env("RAGBUS__SQL__URL", &url)
        .env("RAGBUS__WORKER__ROLES", "tracker")
        .start()
        .await;
    let mut given = BTreeSet::new();
    let mut slowest = Duration::ZERO;
    let mut ask_for = async |seconds: u64| {
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            let started = Instant::now();
            let asked = (0..8).map(|_| service.t1.retrieve("c", "owls"));
            let replies = futures::future::join_all(asked).await;
            slowest = slowest.max(started.elapsed());
            given.extend(replies.iter().map(id_of));
            // Some hundred a second: all of them are read back at once below.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    ask_for(2).await;
    postgres.kill();
    let outage = std::env::var("RAGBUS_OUTAGE_SECONDS");
    ask_for(outage.map_or(12, |seconds| seconds.parse().expect("a number"))).await;
    let waiting = service.nats.waiting("RAG_TRACKING").await;
    assert!(waiting > 0, "they wait in the stream");
    let told = [&service.worker, &second].map(|worker| worker.log());
    assert!(told.iter().any(|log| log.contains("tracking waits")));
    let restarted = tokio::task::spawn_blocking(move || {
        postgres.restart();
        postgres
    });
    ask_for(2).await;
    let _postgres = restarted.await.expect("back");
    ask_for(1).await;
    let registry = PostgresRegistry::open(&url, 2).await.expect("opens");
    let tracker = registry.tracker();
    println!("{} records, {waiting} waited", given.len());
    let all = so_many(&tracker, "t1", given.len()).await;
    assert_eq!(answered(&all), given, "each once, none lost");
    // The default budget of a request: no reply waited for SQL.
    assert!(
        slowest < Duration::from_secs(10),
        "a reply took {slowest:?}"
    );
    assert_eq!(second.readiness().await.0, 200);
    eventually("an empty stream", PATIENCE, || async {
        (service.nats.waiting("RAG_TRACKING").await == 0).then_some(())
    })
    .await;
}

/// A worker's clock may be hours off: the record bears the stream's time. The same event twice counts once.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_record_is_the_streams() {
    let service = Service::start().await;
    let corpus = ragbus::testing::contract::tracker::a_corpus();
    let hour = 3_600_000_000;
    let now = Timestamp::now().as_micros();
    let client = service.nats.client().await;
    let jetstream = async_nats::jetstream::new(client);
    let subject = format!("rag.tracking.{}", corpus.tenant);
    for (number, skew) in [(1, -hour), (2, hour), (2, hour)] {
        let record = RetrievalRecord {
            id: RetrievalId::from_u128(number),
            ..busy_record(&corpus, now + skew, 1)
        };
        let body = prost::Message::encode_to_vec(&retrieval_recorded(&record));
        let sent = jetstream.publish(subject.clone(), body.into()).await;
        sent.expect("sent").await.expect("stored");
    }
    let tracker = sqlite(&service).await;
    let all = so_many(&tracker, corpus.tenant.as_str(), 2).await;
    for record in &all {
        let off = (record.at.as_micros() - now).abs();
        assert!(off < 60_000_000, "{off} µs");
    }
    eventually("the duplicate is counted", PATIENCE, || async {
        let counted = service
            .worker
            .metric("ragbus_tracking_duplicates_total")
            .await;
        (counted == 1.0).then_some(())
    })
    .await;
    assert_eq!(records(&tracker, corpus.tenant.as_str()).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn guarantees_that_contradict_the_rest_are_configuration_errors() {
    let dir = tempfile::tempdir().expect("a folder");
    let cases: [(&[(&str, &str)], &str); 2] = [
        (
            &[
                ("RAGBUS__TRACKING__ENABLED", "false"),
                ("RAGBUS__TRACKING__GUARANTEE", "required"),
            ],
            "tracking.guarantee",
        ),
        (
            &[("RAGBUS__TRACKING__HASH_QUERIES", "true")],
            "tracking.hash_key",
        ),
    ];
    for (env, key) in cases {
        let mut command = ragbus("nats://127.0.0.1:1", dir.path());
        let out = command
            .envs(env.iter().copied())
            .arg("check-config")
            .output();
        let out = out.expect("runs");
        assert_eq!(out.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&out.stderr).contains(key));
    }
}
