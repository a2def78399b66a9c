//! Grading and reranking by a real model, as an outside client sees them.

use serde_json::{Value, json};

use crate::harness::*;

const TEXTS: [&str; 8] = [
    "The barn owl hunts mice at night and sees well in the dark.",
    "Owls rotate their heads by up to 270 degrees.",
    "Badgers dig long tunnels and come out after sunset.",
    "A bank grants loans against collateral and interest.",
    "Interest rates are set by the central bank.",
    "Trains leave the main station every ten minutes.",
    "The stone bridge over the river was built in 1791.",
    "Bats hunt insects in the dark by their own echo.",
];
const QUESTION: &str = "which animals hunt at night?";

/// A service with the stand-in cross-encoder and some texts.
pub async fn service(change: impl FnOnce(WorkerSetup) -> WorkerSetup) -> Service {
    let service =
        Service::with(|setup| change(setup.env("RAGBUS__MODELS__CROSS_ENCODER", "minilm-pair")))
            .await;
    for (number, text) in (1..).zip(TEXTS) {
        service
            .t1
            .indexed(&put("c", &format!("d{number}"), text))
            .await;
    }
    service
}

pub async fn ask(t1: &Caller, options: Value) -> Value {
    let request = json!({ "corpus": "c", "query": QUESTION, "limit": 5, "options": options });
    t1.ask("retrieve", &request).await.ok()
}

pub fn stage<'a>(reply: &'a Value, name: &str) -> &'a Value {
    let stages = reply["stages"].as_array().expect("stages");
    let mut named = stages.iter().filter(|s| s["name"] == name);
    let one = named
        .next()
        .unwrap_or_else(|| panic!("no {name}: {stages:?}"));
    assert!(named.next().is_none(), "{name} twice");
    one
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

fn results(reply: &Value) -> &Vec<Value> {
    reply["results"].as_array().expect("results")
}

#[tokio::test(flavor = "multi_thread")]
async fn both_stages_read_each_chunk_once_and_scores_mean_what_they_say() {
    let service = service(|setup| setup).await;
    let options = json!({ "corrective": "GRADE", "rerank": true });
    let reply = ask(&service.t1, options).await;
    assert_eq!(stage(&reply, "corrective")["modelCalls"], 8);
    assert_eq!(stage(&reply, "reranking")["modelCalls"], 0);
    let quality = &reply["quality"];
    let graded = ["correct", "ambiguous", "incorrect"].map(|grade| number(&quality[grade]));
    assert_eq!(graded.iter().sum::<f64>(), 8.0);
    assert_eq!(quality["retrieved"], 8);
    assert_eq!(reply["models"]["crossEncoder"], "minilm-pair");
    assert_eq!(reply["degraded"], json!([]));
    let mut before = f64::INFINITY;
    for chunk in results(&reply) {
        assert_eq!(chunk["scoreKind"], "CROSS_ENCODER");
        assert_ne!(chunk["grade"], "UNGRADED");
        let logit = number(&chunk["signals"]["crossEncoderLogit"]);
        let metadata = &chunk["metadata"];
        assert_eq!(number(&metadata["_crossEncoderScore"]), logit);
        assert_eq!(metadata["_reranked"], true);
        assert!((0.0..=2.0 / 61.0 + 1e-6).contains(&number(&metadata["_vectorSimilarity"])));
        assert!((0.0..=1.0).contains(&number(&chunk["relevanceScore"])));
        assert!(logit <= before);
        before = logit;
    }
    assert_eq!(results(&reply)[0]["documentId"], "d1");
}

#[tokio::test(flavor = "multi_thread")]
async fn filtering_floors_and_leaving_metadata_out() {
    let service = service(|setup| setup).await;
    let t1 = &service.t1;
    let graded = ask(t1, json!({ "corrective": "GRADE" })).await;
    let kept = ask(t1, json!({ "corrective": "FILTER" })).await;
    let right = |reply: &Value| {
        let good = results(reply).iter().filter(|c| c["grade"] != "INCORRECT");
        good.map(|c| c["chunkId"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(right(&graded), right(&kept));
    assert_eq!(results(&kept).len(), right(&kept).len());
    let floor = number(&results(&graded)[1]["relevanceScore"]);
    let above = ask(t1, json!({ "rerank": true, "minRelevance": floor })).await;
    assert_eq!(results(&above).len(), 2);
    let none = ask(t1, json!({ "rerank": true, "minRelevance": 1.0 })).await;
    assert_eq!(none["outcome"], "NO_RELEVANT_CONTEXT");
    let bare = ask(t1, json!({ "rerank": true, "include": ["CONTENT"] })).await;
    assert!(results(&bare)[0].get("metadata").is_none_or(Value::is_null));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_little_time_is_told_and_can_be_refused() {
    let service = service(|setup| setup).await;
    let request = |options: Value| json!({ "corpus": "c", "query": QUESTION, "options": options });
    let hurried = [("Rag-Timeout-Ms", "1")];
    let late = request(json!({ "rerank": true }));
    let answer = service.t1.ask_with("retrieve", &hurried, &late).await;
    // One millisecond is too little even for the store on most machines: either way the reply is whole.
    assert!(answer.code == 504 || answer.json()["degraded"] == json!(["reranking"]));
    let unwanted = request(json!({ "require": ["corrective"] }));
    let refused = service.t1.ask("retrieve", &unwanted).await;
    assert_eq!(
        (refused.code, refused.json()["field"].clone()),
        (422, json!("options.require"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_budget_is_shared_by_the_stages() {
    let service = service(|setup| setup.env("RAGBUS__INFERENCE__MAX_PAIRS_PER_REQUEST", "5")).await;
    let reply = ask(
        &service.t1,
        json!({ "corrective": "GRADE", "rerank": true }),
    )
    .await;
    let calls = |name| number(&stage(&reply, name)["modelCalls"]);
    assert_eq!(calls("corrective") + calls("reranking"), 5.0);
    let degraded = reply["degraded"].as_array().expect("a list");
    assert!(degraded.contains(&json!("corrective")));
    let required = json!({ "corrective": "GRADE", "require": ["corrective"] });
    let request = json!({ "corpus": "c", "query": QUESTION, "options": required });
    let refused = service.t1.ask("retrieve", &request).await;
    assert_eq!(refused.code, 503);
    assert_eq!(refused.json()["kind"], "required_stage_degraded");
    assert_eq!(refused.json()["stage"], "corrective");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_switches_stages_on_and_a_request_off_again() {
    let service = service(|setup| {
        setup
            .env("RAGBUS__CORRECTIVE__MODE", "filter")
            .env("RAGBUS__RERANKING__ENABLED", "true")
            .env("RAGBUS__EXPANSION__STRATEGY", "template")
    })
    .await;
    let all = ask(&service.t1, json!({})).await;
    let names = |reply: &Value| {
        let stages = reply["stages"].as_array().expect("stages");
        stages.iter().map(|s| s["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&all),
        ["reranking", "expansion", "corrective", "hybrid"]
    );
    assert_eq!(all["queries"][1]["origin"], "TEMPLATE");
    assert!(
        service
            .worker
            .log()
            .contains("reranking > expansion > corrective > hybrid")
    );
    let off = json!({ "corrective": "OFF", "rerank": false, "expansion": { "strategy": "NONE" } });
    let plain = ask(&service.t1, off).await;
    assert_eq!(names(&plain), ["hybrid"]);
    assert_eq!(results(&plain)[0]["scoreKind"], "RRF");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_without_its_part_is_a_configuration_error() {
    let cases = [
        ("RAGBUS__RERANKING__ENABLED", "true", "reranking.enabled"),
        ("RAGBUS__CORRECTIVE__MODE", "grade", "corrective.mode"),
        ("RAGBUS__EXPANSION__STRATEGY", "hyde", "expansion.strategy"),
        (
            "RAGBUS__RETRIEVAL__LANGUAGES",
            "klingon",
            "retrieval.languages",
        ),
        (
            "RAGBUS__LLM__BASE_URL",
            "http://127.0.0.1:1/v1",
            "llm.model",
        ),
        (
            "RAGBUS__EXPANSION__HYPOTHETICALS",
            "6",
            "expansion.hypotheticals",
        ),
    ];
    let dir = tempfile::tempdir().expect("a folder");
    for (name, value, key) in cases {
        let mut command = ragbus("nats://127.0.0.1:1", dir.path());
        let out = command.env(name, value).arg("check-config").output();
        let out = out.expect("runs");
        assert_eq!(out.status.code(), Some(2), "{name}");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains(key), "{said}");
    }
}
