//! Every job ends in one result, under its name; what failed for good is kept as a dead letter.

use serde_json::{Value, json};

use crate::harness::*;

fn bad_jobs() -> Vec<(&'static str, &'static str, Value)> {
    let document = |id: &str| put("c", id, "text");
    let mut typed = document("typed");
    typed["putDocument"]["metadata"] = json!({ "_system": 1 });
    let mut null = document("null");
    null["putDocument"]["metadata"] = json!({ "a": null });
    let mut chunking = document("chunking");
    chunking["putDocument"]["chunking"] = json!({ "maxTokens": 100_000 });
    let mut blob = json!({ "corpus": "c", "putDocument": { "documentId": "blob" } });
    blob["putDocument"]["blob"] = json!({ "bucket": "b", "name": "n" });
    let mut unknown = document("unknown");
    unknown["colour"] = json!("red");
    vec![
        ("invalid_field", "documentId", document("a\u{1}b")),
        ("invalid_field", "documentId", document("")),
        ("invalid_field", "documentId", document(&"x".repeat(513))),
        ("invalid_field", "corpus", put("../x", "d", "text")),
        ("invalid_field", "metadata", typed),
        ("invalid_field", "metadata", null),
        ("invalid_field", "chunking.maxTokens", chunking),
        ("invalid_field", "blob", blob),
        ("invalid_field", "operation", json!({ "corpus": "c" })),
        (
            "invalid_field",
            "chunks[1].content",
            put_chunks("c", "d", &["a".into(), " ".into()]),
        ),
        ("malformed", "", unknown),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_jobs_have_a_result_and_a_dead_letter() {
    let service = Service::start().await;
    let t1 = &service.t1;
    for (kind, field, job) in bad_jobs() {
        let (id, sequence) = t1
            .publish_with(&[("X-Mine", "kept"), ("Rag-Actor", "me")], &job)
            .await;
        let result = t1.result(&id).await;
        assert_eq!(result["status"], "FAILED", "{job}");
        assert_eq!(result["jobId"], id.as_str());
        assert_eq!(result["sequence"], sequence.to_string());
        assert_eq!(result["error"]["kind"], kind, "{result}");
        let named = result["error"]["field"].as_str().expect("text");
        assert!(named.starts_with(field), "{named} for {field}");
        assert_eq!(result["error"]["retryable"], false);
        let letters = service.nats.messages("RAG_DLQ").await;
        let letter = letters.last().expect("a letter");
        let header = |name: &str| {
            letter
                .headers
                .get(name)
                .map_or("", |v| v.as_str())
                .to_owned()
        };
        assert_eq!(letter.subject.as_str(), "rag.dlq.t1");
        assert_eq!(letter.payload, job.to_string(), "the original body");
        assert_eq!(header("X-Mine"), "kept");
        assert_eq!(header("Rag-Actor"), "me");
        assert_eq!(header("Rag-Request-Id"), id);
        assert_eq!(header("Content-Type"), "application/json");
        assert_eq!(header("Rag-Dead-Reason"), kind);
        assert_eq!(header("Rag-Dead-Attempts"), "1");
        assert_eq!(header("Rag-Origin-Sequence"), sequence.to_string());
    }
    assert_eq!(service.nats.waiting("RAG_INGEST").await, 0);
    assert_eq!(
        service.nats.waiting("RAG_DLQ").await,
        bad_jobs().len() as u64
    );
    let corpora = t1.corpora().await;
    assert_eq!(corpora, json!([]), "nothing changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_named_by_their_request_id_or_their_sequence() {
    let service = Service::start().await;
    let t1 = &service.t1;
    for (id, sent) in [
        ("seq-1", headers(&[JSON])),
        (
            "seq-2",
            headers(&[JSON, ("Rag-Request-Id", "no good.name")]),
        ),
        ("my_job-3", headers(&[JSON, ("rag-request-id", "my_job-3")])),
    ] {
        t1.publish_raw(sent, put("c", id, "text").to_string())
            .await
            .expect("stored");
        let result = t1.result_within(id, PATIENCE).await;
        assert_eq!(
            (&result["jobId"], &result["status"]),
            (&json!(id), &json!("INDEXED"))
        );
        let message = t1.result_message(id).await.expect("kept");
        assert_eq!(message.header("Content-Type"), "application/json");
        assert_eq!(message.header("Rag-Request-Id"), id);
        assert!(!message.header("Rag-Worker").is_empty());
        let question = json!({ "getJob": { "jobId": id } });
        assert_eq!(t1.ask("catalog", &question).await.ok()["job"], result);
    }
    // What can't be decoded is answered in JSON, whatever it was meant to be.
    for (id, content, body) in [
        ("bad-json", "application/json", "{"),
        ("bad-proto", "application/protobuf", "\u{a}\u{7f}"),
        ("bad-type", "text/csv", "a,b"),
    ] {
        let sent = headers(&[("Content-Type", content), ("Rag-Request-Id", id)]);
        t1.publish_raw(sent, body).await.expect("stored");
        let result = t1.result(id).await;
        assert_eq!(result["status"], "FAILED");
        let message = t1.result_message(id).await.expect("kept");
        assert_eq!(message.header("Content-Type"), "application/json");
    }
    let other = Caller::of(&service.nats, "t2").await;
    let foreign = other
        .ask("catalog", &json!({ "getJob": { "jobId": "my_job-3" } }))
        .await;
    assert_eq!(foreign.code, 404, "a job of another tenant");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_never_beats_a_newer_version() {
    let service = Service::start().await;
    let t1 = &service.t1;
    let (first, old) = t1.publish(&put("c", "d", "the old text")).await;
    assert_eq!(t1.result(&first).await["status"], "INDEXED");
    t1.indexed(&put("c", "d", "the new text")).await;
    let origin = old.to_string();
    let replay = [("Rag-Origin-Sequence", origin.as_str())];
    let (id, _) = t1
        .publish_with(&replay, &put("c", "d", "the old text"))
        .await;
    let result = t1.result(&id).await;
    assert_eq!(result["sequence"], origin);
    assert_eq!(result["status"], "SUPERSEDED", "{result}");
    assert_eq!(t1.contents("c", "d").await, ["the new text"]);
    let delete = json!({ "corpus": "c", "deleteDocument": { "documentId": "d" } });
    assert_eq!(t1.ingest(&delete).await["status"], "DELETED");
    let (id, _) = t1
        .publish_with(&replay, &put("c", "d", "the old text"))
        .await;
    assert_eq!(
        t1.result(&id).await["status"],
        "SUPERSEDED",
        "a replay resurrects nothing"
    );
    assert!(t1.document("c", "d").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_origin_gains_nothing() {
    let service = Service::start().await;
    let t1 = &service.t1;
    for forged in [
        "18446744073709551615",
        "99999999999999999999999",
        "1000000",
        "-1",
        "x",
    ] {
        let (id, sequence) = t1
            .publish_with(&[("rag-origin-sequence", forged)], &put("c", "d", forged))
            .await;
        let result = t1.result(&id).await;
        assert_eq!(
            result["sequence"],
            sequence.to_string(),
            "{forged} is worth its own sequence"
        );
        assert_eq!(result["status"], "INDEXED");
        assert_eq!(t1.contents("c", "d").await, [forged]);
    }
    t1.indexed(&put("c", "d", "the last text")).await;
    assert_eq!(t1.contents("c", "d").await, ["the last text"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_backlog_is_bounded_and_nobody_elses_problem() {
    let nats = Nats::start().await;
    let dir = tempfile::tempdir().expect("a folder");
    nats.set_up(dir.path());
    let t1 = Caller::of(&nats, "t1").await;
    let body = put("c", "d", "text").to_string();
    let mut acks = Vec::new();
    for _ in 0..1_000 {
        let publish = t1.jetstream.publish_with_headers(
            "rag.ingest.t1",
            headers(&[JSON]),
            body.clone().into(),
        );
        acks.push(publish.await.expect("sent"));
    }
    for ack in acks {
        ack.await.expect("stored");
    }
    let refused = t1
        .publish_raw(headers(&[JSON]), body.clone())
        .await
        .expect_err("over the quota");
    assert!(refused.contains("10077"), "{refused}");
    for tenant in ["t2", "t3", "t17"] {
        let other = Caller::of(&nats, tenant).await;
        other
            .publish_raw(headers(&[JSON]), body.clone())
            .await
            .expect("stored");
    }
    assert_eq!(nats.waiting("RAG_INGEST").await, 1_003);
    says_why_it_waits(&nats, dir.path()).await;
}

/// The command line waits for room, and says so.
async fn says_why_it_waits(nats: &Nats, dir: &std::path::Path) {
    let (file, said) = (dir.join("d.txt"), dir.join("said"));
    std::fs::write(&file, "text").expect("written");
    let output = std::fs::File::create(&said).expect("a file");
    let mut command = ragbus(&nats.url(), &dir.join("other"));
    command.args(["ingest", "--tenant", "t1", "--corpus", "c"]);
    let mut waiting = command.arg(&file).stderr(output).spawn().expect("runs");
    eventually("it says why", PATIENCE, || async {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        said.contains("backlog is full (10077)").then_some(())
    })
    .await;
    let ended = waiting.try_wait().expect("a child");
    assert!(ended.is_none(), "it goes on waiting");
    waiting.kill().expect("killed");
    waiting.wait().expect("gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_documents_cost_no_model_call() {
    let service = Service::start().await;
    let t1 = &service.t1;
    let mut jobs: Vec<Value> = (0..5)
        .map(|i| put("c", &format!("d{i}"), &format!("text {i}")))
        .collect();
    jobs.push(put_chunks(
        "c",
        "chunked",
        &["one".to_owned(), "two".to_owned()],
    ));
    for job in &jobs {
        assert_eq!(t1.ingest(job).await["status"], "INDEXED");
    }
    let before = service.worker.metric("ragbus_model_texts_total").await;
    assert!(before >= 14.0, "7 chunks, two models: {before}");
    for job in &jobs {
        assert_eq!(t1.ingest(job).await["status"], "UNCHANGED");
    }
    let mut tagged = jobs[0].clone();
    tagged["putDocument"]["metadata"] = json!({ "year": 2020 });
    assert_eq!(t1.ingest(&tagged).await["status"], "METADATA_UPDATED");
    let after = service.worker.metric("ragbus_model_texts_total").await;
    assert_eq!(before, after, "model calls");
    let found = t1.document("c", "d0").await.expect("there");
    assert_eq!(found["metadata"]["year"], 2020.0);
    assert_eq!(t1.contents("c", "d0").await, ["text 0"]);
}
