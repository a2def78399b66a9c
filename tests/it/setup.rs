//! `ragbus setup`, and workers that only verify.

use std::process::Output;

use async_nats::jetstream::{Context, stream};

use crate::harness::*;

fn set_up(nats: &Nats, dir: &std::path::Path, more: &[&str]) -> Output {
    let mut command = ragbus(&nats.url(), &dir.join("data"));
    command.arg("setup").args(more).output().expect("runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_prints_what_it_does_and_changes_nothing_twice() {
    let nats = Nats::start().await;
    let dir = tempfile::tempdir().expect("a folder");
    let first = said(&set_up(&nats, dir.path(), &[]));
    for what in [
        "+ stream RAG_INGEST created",
        "+ stream RAG_DLQ created",
        "+ consumer ingest-15 created",
    ] {
        assert!(first.contains(what), "{what} not in {first}");
    }
    let second = said(&set_up(&nats, dir.path(), &[]));
    let lines: Vec<&str> = second.lines().collect();
    assert_eq!(lines.len(), first.lines().count());
    assert!(
        lines.iter().all(|line| line.ends_with("unchanged")),
        "{second}"
    );
    let jetstream = nats.jetstream().await;
    let dlq = jetstream.get_stream("RAG_DLQ").await.expect("there");
    let changed = stream::Config {
        // Sizes are an operator's choice; whether results can be read directly is not.
        max_messages_per_subject: 7,
        allow_direct: false,
        ..dlq.cached_info().config.clone()
    };
    jetstream.update_stream(changed).await.expect("updated");
    let third = said(&set_up(&nats, dir.path(), &[]));
    assert!(third.contains("~ stream RAG_DLQ updated"), "{third}");
    assert!(third.contains("allow_direct: false -> true"), "{third}");
    assert!(!third.contains("max_msgs_per_subject"), "{third}");
    assert!(third.contains("  stream RAG_INGEST unchanged"), "{third}");
    let json = said(&set_up(&nats, dir.path(), &["--json"]));
    for line in json.lines() {
        let change: serde_json::Value = serde_json::from_str(line).expect("JSON lines");
        assert_eq!(change["action"], "unchanged", "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_setup_says_what_is_missing_and_gets_ready_by_itself() {
    let nats = Nats::start().await;
    let dir = tempfile::tempdir().expect("a folder");
    let mut worker = WorkerSetup::new(&nats.url(), dir.path()).spawn();
    worker.says("nothing is pulled").await;
    let (status, page) = worker.readiness().await;
    assert_eq!(status, 503);
    assert!(
        page.contains("stream RAG_INGEST is missing: run `ragbus setup`"),
        "{page}"
    );
    assert_eq!(get(worker.http(), "/livez").await.expect("alive").0, 200);
    let t1 = Caller::of(&nats, "t1").await;
    let ping = t1
        .raw(
            "$SRV.PING.ragbus",
            headers(&[]),
            "",
            std::time::Duration::from_millis(500),
        )
        .await;
    assert!(ping.is_none(), "not ready, not discovered");
    assert!(set_up(&nats, dir.path(), &[]).status.success());
    worker.ready().await;
    t1.indexed(&put("c", "d", "text")).await;
    // A stream that is not as it should be is named with what it has and what it should have.
    drop(worker);
    let jetstream = nats.jetstream().await;
    let ingest = jetstream.get_stream("RAG_INGEST").await.expect("there");
    let changed = stream::Config {
        max_message_size: 1_000,
        ..ingest.cached_info().config.clone()
    };
    jetstream.update_stream(changed).await.expect("updated");
    let worker = WorkerSetup::new(&nats.url(), dir.path()).spawn();
    worker.says("max_msg_size 1000, not").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_ingest_stream_continues_above_the_registry() {
    let mut service = Service::start().await;
    for text in ["one", "two", "three"] {
        service.t1.indexed(&put("c", "d", text)).await;
    }
    let jetstream = service.nats.jetstream().await;
    jetstream
        .delete_stream("RAG_INGEST")
        .await
        .expect("deleted");
    eventually("the worker notices", PATIENCE, || async {
        (service.worker.readiness().await.0 == 503).then_some(())
    })
    .await;
    let made = said(&set_up(&service.nats, service.dir.path(), &[]));
    assert!(made.contains("+ stream RAG_INGEST created"), "{made}");
    service.worker.ready().await;
    let result = service.t1.ingest(&put("c", "d", "four")).await;
    assert_eq!(result["status"], "INDEXED", "{result}");
    assert_eq!(result["sequence"], "4", "sequences go on");
    assert_eq!(service.t1.contents("c", "d").await, ["four"]);
}

/// The ingest stream again, counting from 1.
async fn recreated_by_hand(jetstream: &Context) {
    let ingest = jetstream.get_stream("RAG_INGEST").await.expect("there");
    let config = stream::Config {
        first_sequence: None,
        ..ingest.cached_info().config.clone()
    };
    let deleted = jetstream.delete_stream("RAG_INGEST").await;
    deleted.expect("deleted");
    jetstream.create_stream(config).await.expect("created");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_pulled_from_a_stream_that_counts_from_below_the_registry() {
    let service = Service::start().await;
    for text in ["one", "two", "three"] {
        service.t1.ingest(&put("c", "d", text)).await;
    }
    let Service {
        worker,
        nats,
        t1,
        dir,
    } = service;
    worker.kill();
    let jetstream = nats.jetstream().await;
    recreated_by_hand(&jetstream).await;
    let (job, sequence) = t1.publish(&put("c", "d", "would be superseded")).await;
    assert_eq!(sequence, 1);
    let mut worker = WorkerSetup::new(&nats.url(), dir.path()).spawn();
    worker.says("the stream was recreated").await;
    assert_eq!(worker.readiness().await.0, 503);
    assert_eq!(nats.waiting("RAG_INGEST").await, 1, "nothing was pulled");
    assert!(t1.result_message(&job).await.is_none());
    let refused = set_up(&nats, dir.path(), &[]);
    assert!(!refused.status.success(), "jobs would be lost");
    assert!(
        said(&refused).contains("Save its messages"),
        "{}",
        said(&refused)
    );
    // Empty again, it is raised, and the worker goes on by itself.
    let ingest = jetstream.get_stream("RAG_INGEST").await.expect("there");
    ingest.purge().await.expect("purged");
    let raised = said(&set_up(&nats, dir.path(), &[]));
    assert!(raised.contains("continues at sequence 4"), "{raised}");
    worker.ready().await;
    let result = t1.ingest(&put("c", "d", "four")).await;
    assert_eq!(
        (&result["status"], &result["sequence"]),
        (&"INDEXED".into(), &"4".into())
    );
}
