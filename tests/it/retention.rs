//! Retention end to end: the server's schedule, runs that outlive their worker, purge, holds, expiry, forgetting.

use std::path::Path;
use std::time::{Duration, Instant};

use ragbus::adapters::postgres::PostgresRegistry;
use ragbus::model::{CorpusName, CorpusRef, Run, RunState, TenantId};
use ragbus::spi::{RetentionRegistry, RetrievalTracker};
use ragbus::testing::contract::tracker::busy_record;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::harness::*;

const DAY: i64 = 86_400_000_000;

/// A command of an operator: exit code, JSON of standard output, standard error.
async fn operator(nats: &Nats, args: &[&str]) -> (i32, Value, String) {
    let mut command = ragbus(&nats.url(), Path::new("unused"));
    command.args(args).arg("--json").env("RAGBUS_ACTOR", "olga");
    let ran = tokio::task::spawn_blocking(move || command.output().expect("runs"));
    let out = ran.await.expect("no panic");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let answer = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
    (out.status.code().unwrap_or(-1), answer, said)
}

fn corpus(tenant: &str) -> CorpusRef {
    CorpusRef::new(
        TenantId::mint(tenant).expect("valid"),
        CorpusName::new("c").expect("valid"),
    )
}

async fn database(cluster: &Cluster) -> PostgresRegistry {
    let opened = PostgresRegistry::open(&cluster.postgres.url(), 4).await;
    opened.expect("opened")
}

async fn ended(registry: &PostgresRegistry) -> Vec<Run> {
    let runs = registry.runs(1_000).await.expect("listed");
    let over = runs.into_iter().filter(|run| run.state != RunState::Open);
    over.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tick_of_the_servers_schedule_is_one_run() {
    let cluster = Cluster::start().await;
    let worker = |name| {
        let setup = cluster.worker(name);
        setup.env("RAGBUS__RETENTION__SCHEDULE", "@every 1s")
    };
    let _workers = [worker("w0").start().await, worker("w1").start().await];
    let registry = database(&cluster).await;
    let runs = eventually("four runs", PATIENCE, || async {
        let runs = ended(&registry).await;
        (runs.len() >= 4).then_some(runs)
    })
    .await;
    let mut keys: Vec<&str> = runs.iter().map(|run| run.key.as_str()).collect();
    assert!(
        keys.iter()
            .all(|key| key.starts_with("rag.schedule.retention@")),
        "{keys:?}"
    );
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), runs.len(), "a planned time, a run");
    assert!(
        runs.iter().all(|run| run.state == RunState::Done),
        "{runs:?}"
    );
    let acts = registry.acts("", 1_000).await.expect("listed");
    let told = acts.iter().filter(|(_, act)| act.action == "retention.run");
    assert!(told.count() >= 4, "each is on record");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_make_the_ticks_where_the_server_cannot() {
    let cluster = Cluster::start().await;
    let worker = |name| {
        let setup = cluster.worker(name);
        let setup = setup.env("RAGBUS__RETENTION__TICK_SOURCE", "workers");
        setup.env("RAGBUS__RETENTION__SCHEDULE", "@every 1s")
    };
    let _workers = [worker("w0").start().await, worker("w1").start().await];
    let registry = database(&cluster).await;
    let runs = eventually("three runs", PATIENCE, || async {
        let runs = ended(&registry).await;
        (runs.len() >= 3).then_some(runs)
    })
    .await;
    let seconds: Vec<i64> = runs
        .iter()
        .map(|run| {
            let planned = run.key.strip_prefix("rag.retention.tick@retention-");
            let planned: i64 = planned
                .and_then(|p| p.parse().ok())
                .expect("a planned time");
            assert_eq!(planned % 1_000_000, 0, "{}", run.key);
            planned / 1_000_000
        })
        .collect();
    assert!(
        seconds.windows(2).all(|pair| pair[0] > pair[1]),
        "each once: {seconds:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_outlives_its_worker_and_inserts_go_on() {
    // 18 rows each: more than 200,000.
    const OLD: usize = 12_000;
    let cluster = Cluster::start().await;
    let registry = database(&cluster).await;
    let tracker = registry.tracker();
    let now = tracker.now().await.expect("told").as_micros();
    let (mine, theirs) = (corpus("t1"), corpus("t2"));
    for batch in 0..OLD / 500 {
        let first = batch * 500;
        let record = |n| busy_record(&mine, now - 100 * DAY - n as i64, n);
        let records: Vec<_> = (first..first + 500).map(record).collect();
        tracker.record(&records).await.expect("stored");
    }
    tracker
        .record(&[busy_record(&theirs, now - 200 * DAY, 1)])
        .await
        .expect("stored");
    let setup = |name| {
        cluster
            .worker(name)
            .env("RAGBUS__RETENTION__BATCH_ROWS", "50")
    };
    let worker = setup("w0").start().await;
    let purge = ["purge", "--older-than", "90d", "--tenant", "t1"];
    let (code, told, _) = operator(&cluster.nats, &[&purge[..], &["--dry-run"]].concat()).await;
    assert_eq!(
        (code, &told["retrievals"]),
        (0, &json!(OLD.to_string())),
        "{told}"
    );
    let (code, refused, _) = operator(&cluster.nats, &purge).await;
    assert_eq!(
        (code, &refused["state"]),
        (1, &json!("REFUSED")),
        "{refused}"
    );
    assert!(
        refused["notes"][0]
            .as_str()
            .is_some_and(|note| note.contains("12000 of 12000"))
    );

    let nats = cluster.nats.url();
    let ordering = tokio::task::spawn_blocking(move || {
        let mut command = ragbus(&nats, Path::new("unused"));
        command.args([
            "purge",
            "--older-than",
            "90d",
            "--tenant",
            "t1",
            "--force",
            "--json",
        ]);
        command.output().expect("runs")
    });
    eventually("a part of it is gone", PATIENCE, || async {
        let runs = registry.runs(1).await.expect("listed");
        let gone = runs.first()?.counts.tracking.retrievals;
        (gone > 500).then_some(())
    })
    .await;
    worker.kill();
    let halfway = registry.runs(1).await.expect("listed").remove(0);
    assert!(
        halfway.counts.tracking.retrievals < OLD as u64,
        "killed in the middle"
    );
    let _worker = setup("w1").start().await;
    let mut waits = Vec::new();
    let run = loop {
        let fresh = busy_record(&mine, now + waits.len() as i64, waits.len());
        let started = Instant::now();
        tracker.record(&[fresh]).await.expect("stored");
        waits.push(started.elapsed());
        let run = registry
            .run(&halfway.key)
            .await
            .expect("read")
            .expect("there");
        if run.state != RunState::Open {
            break run;
        }
        assert!(waits.len() < 100_000, "the run never ends");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    waits.sort_unstable();
    println!(
        "inserts beside the purge: {} with p99 {:?}",
        waits.len(),
        waits[waits.len() * 99 / 100]
    );
    assert_eq!(run.state, RunState::Done, "{:?}", run.notes);
    let counts = run.counts.tracking;
    assert_eq!(
        (counts.retrievals, counts.chunks),
        (OLD as u64, 10 * OLD as u64),
        "exactly"
    );
    let out = ordering.await.expect("no panic");
    let told: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(
        told["retrievals"],
        OLD.to_string(),
        "the command waited for the end"
    );
    let left = tracker.tracked_corpora().await.expect("listed");
    assert_eq!(left, [mine, theirs], "nobody else's, nothing new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_goes_when_its_time_is_over_unless_it_is_held() {
    let service = Service::with(|s| s.env("RAGBUS__RETENTION__SCHEDULE", "@every 1s")).await;
    let (nats, t1) = (&service.nats, &service.t1);
    let soon = jiff::Timestamp::now() + Duration::from_secs(2);
    for id in ["gone", "held"] {
        let put = json!({ "corpus": "c", "putDocument": {
            "documentId": id, "text": "The owl hunts.", "expiresAt": soon.to_string() } });
        t1.indexed(&put).await;
    }
    t1.indexed(&put("c", "stays", "The badger digs.")).await;
    let hold = [
        "hold",
        "add",
        "--tenant",
        "t1",
        "--corpus",
        "c",
        "--document",
        "held",
    ];
    let (code, held, said) = operator(nats, &[&hold[..], &["--reason", "case 17"]].concat()).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(held["holds"][0]["actor"], "olga");
    eventually("it is gone", PATIENCE, || async {
        t1.document("c", "gone").await.is_none().then_some(())
    })
    .await;
    assert!(t1.document("c", "held").await.is_some());
    let found = t1.retrieve("c", "which owl hunts?").await;
    let ids = |found: &Value| -> Vec<String> {
        let results = found["results"].as_array().expect("results").iter();
        results
            .map(|r| r["documentId"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let mut left = ids(&found);
    left.sort();
    assert_eq!(left, ["held", "stays"]);
    let id = held["holdId"].as_str().expect("a name").to_owned();
    let (code, _, _) = operator(nats, &["hold", "release", &id, "--tenant", "t2"]).await;
    assert_eq!(code, 1, "not theirs");
    let (code, after, _) = operator(nats, &["hold", "release", &id, "--tenant", "t1"]).await;
    assert_eq!(
        (code, after["holds"].as_array().map(Vec::len)),
        (0, Some(0))
    );
    eventually("it is gone too", PATIENCE, || async {
        t1.document("c", "held").await.is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_forgotten_with_a_receipt() {
    let service = Service::start().await;
    let nats = &service.nats;
    let t2 = Caller::of(nats, "t2").await;
    for caller in [&service.t1, &t2] {
        caller.indexed(&put("c", "owl", "The owl hunts.")).await;
        let odd = json!({ "corpus": "c", "putDocument": {
            "documentId": "odd", "data": "AAAA", "mediaType": "application/pdf" } });
        assert_eq!(caller.ingest(&odd).await["status"], "FAILED");
    }
    let (code, _, said) = operator(nats, &["forget", "--tenant", "t1"]).await;
    assert_eq!(code, 2, "{said}");
    let (_, held, _) = operator(nats, &["hold", "add", "--tenant", "t1", "--reason", "x"]).await;
    let (code, _, said) = operator(nats, &["forget", "--tenant", "t1", "--yes"]).await;
    assert!(code == 2 && said.contains("legal hold"), "{said}");
    assert!(service.t1.document("c", "owl").await.is_some());
    let id = held["holdId"].as_str().expect("a name").to_owned();
    operator(nats, &["hold", "release", &id, "--tenant", "t1"]).await;
    let (code, receipt, said) = operator(nats, &["forget", "--tenant", "t1", "--yes"]).await;
    assert_eq!(code, 0, "{said}");
    let kept = &receipt["kept"];
    assert_eq!(
        (&kept["corpora"], &kept["documents"], &kept["chunks"]),
        (&json!("1"), &json!("1"), &json!("1"))
    );
    let messages = &receipt["messages"];
    assert_eq!(
        (&messages["results"], &messages["deadLetters"]),
        (&json!(2), &json!(1)),
        "{receipt}"
    );
    assert_eq!(
        service.t1.retrieve("c", "owl").await["outcome"],
        "NO_CORPUS"
    );
    assert_eq!(service.t1.corpora().await, json!([]));
    assert_eq!(
        t2.retrieve("c", "owl").await["outcome"],
        "OK",
        "nobody else's"
    );
    service.t1.indexed(&put("c", "owl", "A new owl.")).await;
    assert_eq!(service.t1.contents("c", "owl").await, ["A new owl."]);
}
