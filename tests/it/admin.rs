//! Operators' requests, and that nobody else's inbox gets an answer.

use serde_json::{Value, json};

use crate::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_compares_registry_and_store() {
    let service = Service::with(|s| {
        s.env(
            "RAGBUS__NATS__REPLY_PREFIXES",
            "_INBOX.{tenant}.,_INBOX_OPS.",
        )
    })
    .await;
    service
        .t1
        .indexed(&put("c", "owl", "The owl hunts at night."))
        .await;
    let verify = |corpus: &str| {
        let out = ragbus(&service.nats.url(), &service.dir.path().join("other"))
            .env(
                "RAGBUS__NATS__REPLY_PREFIXES",
                "_INBOX.{tenant}.,_INBOX_OPS.",
            )
            .args([
                "verify", "--tenant", "t1", "--corpus", corpus, "--repair", "--json",
            ])
            .output()
            .expect("runs");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        serde_json::from_slice::<Value>(&out.stdout).expect("JSON")
    };
    let found = verify("c");
    assert_eq!(found["clean"], true);
    assert_eq!(
        (&found["documents"], &found["registryChunks"]),
        (&json!("1"), &json!("1"))
    );
    assert_eq!(verify("absent")["storedPoints"], "0");
    // A tenant's inbox is no operator's.
    let body = json!({ "tenant": "t2", "corpus": "c" }).to_string();
    let own = "_INBOX.t1.answer";
    let mut heard = service.t1.listen("_INBOX.t1.answer").await;
    service.t1.send("rag.admin.verify", own, &[], &body).await;
    let refused = service.worker.metrics();
    let heard = tokio::time::timeout(
        std::time::Duration::from_millis(500),
        futures::StreamExt::next(&mut heard),
    );
    assert!(heard.await.is_err(), "no reply outside operators' inboxes");
    assert!(refused.await.contains("ragbus_replies_refused"));
    let operator = service.nats.operator().await;
    let odd = operator
        .request("rag.admin.nonsense", body.into())
        .await
        .expect("a reply");
    assert_eq!(Answer::of(odd).code, 404);
}
