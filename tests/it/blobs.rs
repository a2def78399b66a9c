//! Bodies above the message limit, through the tenant's bucket.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::*;

const OWL: &[u8] = b"The owl hunts at night.";

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// A job whose body lies in a bucket.
fn job(document: &str, blob: Value) -> Value {
    json!({ "corpus": "c", "putDocument": { "documentId": document, "blob": blob } })
}

fn blob(tenant: &str, name: &str, bytes: &[u8]) -> Value {
    json!({
        "bucket": format!("RAG_BLOB_{tenant}"), "name": name, "sha256": sha256(bytes), "size": bytes.len()
    })
}

async fn bucket(caller: &Caller, tenant: &str) -> async_nats::jetstream::object_store::ObjectStore {
    let config = async_nats::jetstream::object_store::Config {
        bucket: format!("RAG_BLOB_{tenant}"),
        ..Default::default()
    };
    caller
        .jetstream
        .create_object_store(config)
        .await
        .expect("a bucket")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_the_tenants_bucket_is_indexed_like_any_other() {
    let service = Service::start().await;
    let t1 = &service.t1;
    let store = bucket(t1, "t1").await;
    store.put("owl", &mut &OWL[..]).await.expect("put");
    let result = t1.indexed(&job("owl", blob("t1", "owl", OWL))).await;
    assert_eq!(result["chunks"], 1);
    let found = t1.retrieve("c", "who hunts at night?").await;
    assert_eq!(found["results"][0]["content"], "The owl hunts at night.");
    // The same bytes in the message are the same document.
    let mut inline = put("c", "owl", "");
    inline["putDocument"] =
        json!({ "documentId": "owl", "data": "VGhlIG93bCBodW50cyBhdCBuaWdodC4=" });
    assert_eq!(t1.ingest(&inline).await["status"], "UNCHANGED");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_as_promised_is_a_permanent_clear_failure() {
    let service = Service::start().await;
    let t1 = &service.t1;
    let (own, foreign) = (bucket(t1, "t1").await, bucket(t1, "t2").await);
    own.put("owl", &mut &OWL[..]).await.expect("put");
    foreign.put("secret", &mut &OWL[..]).await.expect("put");
    let secret = foreign.get("secret").await.expect("there").info;
    own.add_link("link", &secret).await.expect("linked");
    let gone = own.put("gone", &mut &OWL[..]).await.expect("put").name;
    own.delete(&gone).await.expect("deleted");
    let changed = |field: &str, value: Value| {
        let mut changed = blob("t1", "owl", OWL);
        changed[field] = value;
        changed
    };
    let cases = [
        (
            changed("sha256", json!(sha256(b"another"))),
            "invalid_field",
            "blob.sha256",
        ),
        (changed("size", json!(5)), "invalid_field", "blob.size"),
        (changed("size", json!(0)), "invalid_field", "blob.size"),
        (changed("size", json!("99999999999")), "too_large", ""),
        (changed("name", json!("absent")), "not_found", ""),
        (changed("name", json!("gone")), "not_found", ""),
        (changed("name", json!("link")), "invalid_field", "blob.name"),
        (blob("t2", "secret", OWL), "invalid_field", "blob.bucket"),
        (blob("nobody", "x", OWL), "invalid_field", "blob.bucket"),
    ];
    for (blob, kind, field) in cases {
        let result = t1.ingest(&job("d", blob.clone())).await;
        assert_eq!(result["status"], "FAILED", "{blob}: {result}");
        assert_eq!(result["error"]["kind"], kind, "{blob}: {result}");
        assert_eq!(result["error"]["field"], field, "{blob}: {result}");
        assert_eq!(result["error"]["retryable"], false, "{blob}: {result}");
    }
    assert!(t1.document("c", "d").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_puts_large_files_aside_by_itself() {
    let service = Service::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    // Few distinct words, most of them white space: large, yet quick to embed.
    let text = format!(
        "The owl hunts at night.{}The badger digs.",
        " ".repeat(1_500_000)
    );
    std::fs::write(folder.path().join("large.txt"), text).expect("written");
    let out = ragbus(&service.nats.url(), &service.dir.path().join("other"))
        .args(["ingest", "--tenant", "t1", "--corpus", "c", "--json"])
        .arg(folder.path())
        .output()
        .expect("runs");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let result: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(result["status"], "INDEXED");
    let setup = ragbus(&service.nats.url(), &service.dir.path().join("other"))
        .args(["setup", "--tenant", "t1", "--tenant", "t3"])
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&setup.stdout).into_owned();
    assert!(said.contains("bucket RAG_BLOB_t1 unchanged"), "{said}");
    assert!(said.contains("bucket RAG_BLOB_t3 created"), "{said}");
}
