//! Judgements: the codes of every kind of id, over the wire and the command line.

use std::time::{Duration, Instant};

use ragbus::model::{FeedbackOutcome, RetrievalId};
use ragbus::spi::RetrievalTracker;
use serde_json::{Value, json};

use crate::harness::*;
use crate::tracking::{id_of, so_many, sqlite, tenant};

fn judgement(id: &str, document: &str, outcome: &str) -> Value {
    json!({ "retrievalId": id, "documentId": document, "outcome": outcome })
}

async fn code(caller: &Caller, id: &str, document: &str, outcome: &str) -> (u16, String) {
    let answer = caller
        .ask("feedback", &judgement(id, document, outcome))
        .await;
    let field = match answer.code {
        0 => String::new(),
        _ => answer.json()["field"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    };
    (answer.code, field)
}

async fn asked(service: &Service) -> (RetrievalId, String) {
    service
        .t1
        .indexed(&put("c", "d1", "owls hunt at night"))
        .await;
    let reply = service.t1.retrieve("c", "owls").await;
    let id = id_of(&reply);
    (id, id.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_judgement_counts_and_every_other_id_has_its_code() {
    let service = Service::start().await;
    let (id, name) = asked(&service).await;
    let t1 = &service.t1;
    // At once: the event may still be on its way, and is waited for.
    let answer = t1
        .ask("feedback", &judgement(&name, "d1", "NOT_RELEVANT"))
        .await
        .ok();
    assert_eq!(answer, json!({ "retrievalId": name }));
    let told = [("Rag-Actor", "clerk")];
    let again = judgement(&name, "d1", "HIGHLY_RELEVANT");
    t1.ask_with("feedback", &told, &again).await.ok();
    let tracker = sqlite(&service).await;
    let stored = tracker.feedback_of(&tenant("t1"), id).await.expect("read");
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].outcome, FeedbackOutcome::HighlyRelevant);
    assert_eq!(stored[0].actor, "clerk");
    let none = |code: u16| (code, String::new());
    let field = |name: &str| (422, name.to_owned());
    assert_eq!(
        code(t1, &name, "other", "RELEVANT").await,
        field("documentId")
    );
    assert_eq!(code(t1, &name, "", "RELEVANT").await, field("documentId"));
    assert_eq!(code(t1, "x", "d1", "RELEVANT").await, field("retrievalId"));
    assert_eq!(
        code(t1, &name, "d1", "KIND_UNSPECIFIED").await,
        field("outcome")
    );
    assert_eq!(code(t1, &name, "d1", "GOOD").await.0, 400);
    // Old ids, and ids that tell no time, are not waited for.
    for unknown in [
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "7d444840-9dc0-41d1-b245-5ffdce74fad2",
    ] {
        let started = Instant::now();
        assert_eq!(code(t1, unknown, "d1", "RELEVANT").await, none(404));
        assert!(started.elapsed() < Duration::from_secs(3));
    }
    // Another tenant's is as unknown as one that was only just made, and both are waited for.
    let t2 = Caller::of(&service.nats, "t2").await;
    let young = uuid::Uuid::now_v7().to_string();
    let foreign = code(&t2, &name, "d1", "RELEVANT").await.0;
    assert!([404, 503].contains(&foreign), "{foreign}");
    let started = Instant::now();
    let answer = t1
        .ask("feedback", &judgement(&young, "d1", "RELEVANT"))
        .await;
    assert_eq!(answer.code, 503);
    assert_eq!(answer.header("Rag-Retry-After-Ms"), "5000");
    assert!(started.elapsed() > Duration::from_secs(4));
    let hurried = [("Rag-Timeout-Ms", "500")];
    let young = judgement(&uuid::Uuid::now_v7().to_string(), "d1", "RELEVANT");
    let started = Instant::now();
    assert_eq!(t1.ask_with("feedback", &hurried, &young).await.code, 503);
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "within its own budget"
    );
    let stored = tracker.feedback_of(&tenant("t1"), id).await.expect("read");
    assert_eq!(stored[0].outcome, FeedbackOutcome::HighlyRelevant);
    assert!(
        tracker
            .feedback_of(&tenant("t2"), id)
            .await
            .expect("read")
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_judges_and_says_what_is_wrong() {
    let service = Service::start().await;
    let (id, name) = asked(&service).await;
    let tracker = sqlite(&service).await;
    so_many(&tracker, "t1", 1).await;
    let run = |id: &str, document: &str, outcome: &str| {
        let mut command = ragbus(&service.nats.url(), service.dir.path());
        command.args([
            "feedback", id, document, outcome, "--tenant", "t1", "--json",
        ]);
        command.output().expect("runs")
    };
    let done = run(&name, "d1", "partially_relevant");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let said: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(said["retrievalId"], name);
    let stored = tracker.feedback_of(&tenant("t1"), id).await.expect("read");
    assert_eq!(stored[0].outcome, FeedbackOutcome::PartiallyRelevant);
    let unknown = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    assert_eq!(run(unknown, "d1", "RELEVANT").status.code(), Some(1));
    assert_eq!(run(&name, "other", "RELEVANT").status.code(), Some(2));
    assert_eq!(run(&name, "d1", "GOOD").status.code(), Some(2));
}
