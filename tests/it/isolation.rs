//! S5: whatever the names, the strategy or the filter, nobody sees a chunk of another tenant.

use serde_json::{Value, json};

use crate::harness::*;

/// Tenant and corpus: pairs that a careless naming scheme would mix up, and the same corpus of two tenants.
const OWNERS: [(&str, &str); 8] = [
    ("t1", "c"),
    ("t2", "c"),
    ("a_b", "c"),
    ("a", "b_c"),
    ("a-b", "c"),
    ("a", "b-c"),
    ("a", "b"),
    ("a_b_", "c"),
];

fn texts(tenant: &str, corpus: &str) -> Vec<String> {
    let owner = format!("owned by tenant {tenant} in corpus {corpus}");
    vec![
        format!("the owl hunts at night, {owner}"),
        format!("badgers dig, {owner}"),
    ]
}

/// Filters that try to widen what is seen: names of system fields, alternatives, negations.
fn filters() -> Vec<Value> {
    let eq = |field: &str, value: &str| json!({ "eq": { "field": field, "value": value } });
    let mut filters = vec![json!({ "not": { "exists": { "field": "absent" } } })];
    for field in ["tenant", "tenant_id", "tenantId", "t"] {
        filters.push(eq(field, "t2"));
        filters.push(json!({ "or": { "filters": [eq(field, "t2"), { "not": eq(field, "zz") }] } }));
    }
    filters
}

/// Every stage, alone and with the others.
fn stages() -> [Value; 6] {
    let template = json!({ "strategy": "TEMPLATE" });
    [
        json!({}),
        json!({ "corrective": "GRADE" }),
        json!({ "corrective": "FILTER" }),
        json!({ "rerank": true }),
        json!({ "expansion": template }),
        json!({ "expansion": template, "corrective": "GRADE", "rerank": true }),
    ]
}

async fn no_foreign_chunk(caller: &Caller, corpus: &str) {
    let owned = texts(&caller.tenant, corpus);
    let filters = std::iter::once(Value::Null).chain(filters());
    let asked = filters.flat_map(|filter| stages().map(|options| (filter.clone(), options)));
    for (filter, options) in asked {
        let mut request = json!({
            "corpus": corpus, "query": "the owl and the badgers", "limit": 100, "options": options
        });
        if !filter.is_null() {
            request["filter"] = filter.clone();
        }
        let reply = caller.ask("retrieve", &request).await;
        if reply.code == 422 {
            continue;
        }
        for result in reply.ok()["results"].as_array().expect("a list") {
            let content = result["content"].as_str().expect("text").to_owned();
            assert!(
                owned.contains(&content),
                "{} got {content} by {filter} with {options}",
                caller.tenant
            );
        }
    }
}

/// All of a tenant's own is there.
async fn complete(caller: &Caller, corpus: &str) {
    let owned = texts(&caller.tenant, corpus);
    let found = caller.retrieve(corpus, "the owl and the badgers").await;
    let found = found["results"].as_array().map(Vec::len);
    assert_eq!(found, Some(2), "{}/{corpus}", caller.tenant);
    assert_eq!(caller.contents(corpus, "same-id").await, owned);
}

/// Nobody judges another's retrieval; one's own can be judged.
async fn no_foreign_judgement(callers: &[(Caller, &str)]) {
    for (at, (caller, corpus)) in callers.iter().enumerate() {
        let reply = caller.retrieve(corpus, "the owl").await;
        let judgement = json!({
            "retrievalId": reply["retrievalId"], "documentId": "same-id", "outcome": "RELEVANT"
        });
        caller.ask("feedback", &judgement).await.ok();
        let (other, _) = &callers[(at + 1) % callers.len()];
        if other.tenant != caller.tenant {
            // Only just made, so it is waited for: not long.
            let hurried = [("Rag-Timeout-Ms", "300")];
            let foreign = other.ask_with("feedback", &hurried, &judgement).await;
            assert_eq!(
                foreign.code, 503,
                "{} judged {}",
                other.tenant, caller.tenant
            );
        }
    }
}

async fn matrix(strategy: &str) {
    let service = Service::with(|s| {
        let legs = if strategy == "shared" {
            "dense,sparse"
        } else {
            "dense,sparse,bm25"
        };
        s.env("RAGBUS__TENANCY__STRATEGY", strategy)
            .env("RAGBUS__RETRIEVAL__LEGS", legs)
            .env("RAGBUS__MODELS__CROSS_ENCODER", "minilm-pair")
    })
    .await;
    nobody_meets(&service.nats).await;
}

/// The whole matrix over a running service.
pub async fn nobody_meets(nats: &Nats) {
    let mut callers = Vec::new();
    for (tenant, corpus) in OWNERS {
        let caller = Caller::of(nats, tenant).await;
        let result = caller
            .ingest(&put_chunks(corpus, "same-id", &texts(tenant, corpus)))
            .await;
        assert_eq!(result["status"], "INDEXED", "{tenant}/{corpus}: {result}");
        callers.push((caller, corpus));
    }
    for (caller, corpus) in &callers {
        complete(caller, corpus).await;
        no_foreign_chunk(caller, corpus).await;
        let own = OWNERS.iter().filter(|(t, _)| *t == caller.tenant);
        let corpora = caller.corpora().await;
        assert_eq!(corpora.as_array().map(Vec::len), Some(own.count()));
    }
    no_foreign_judgement(&callers).await;
    // Deleting one's own takes nothing of anybody else's.
    let (first, corpus) = &callers[0];
    assert_eq!(
        first
            .ingest(&json!({ "corpus": corpus, "deleteCorpus": {} }))
            .await["status"],
        "DELETED"
    );
    assert!(first.document(corpus, "same-id").await.is_none());
    assert_eq!(first.retrieve(corpus, "owl").await["results"], json!([]));
    for (caller, corpus) in &callers[1..] {
        complete(caller, corpus).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_no_foreign_chunk_with_separate_collections() {
    matrix("separate").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_no_foreign_chunk_with_shared_collections() {
    matrix("shared").await;
}
