//! Models that have no name here.

use serde_json::Value;

use super::*;
use crate::hub_server::OLD_NAME;

#[tokio::test(flavor = "multi_thread")]
async fn any_repository_can_be_pulled_with_a_manifest() {
    let hub = hub().await;
    let machine = Machine::new(hub.url());
    let recipe = machine.recipe("mine", OLD_NAME);
    let mut pull = machine.command(&["models", "pull", "mine", "--json", "--manifest", &recipe]);
    let (code, out, err) = ended(pull.env("RAGBUS__MODELS__HUB_TOKEN", "topsecret"));
    assert_eq!(code, 0, "{out}{err}");
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let (found, pulled) = (&lines[0], &lines[1]);
    assert_eq!(
        (&found["status"], &found["bytes"]),
        (&"found".into(), &123_620.into())
    );
    assert_eq!(
        (&found["licence"], &found["commit"]),
        (&"none: random numbers".into(), &COMMIT.into())
    );
    assert_eq!(
        (&pulled["status"], &pulled["configKey"]),
        (&"pulled".into(), &"models.cross_encoder".into())
    );
    assert_eq!(lines.len(), 2);
    let asked = hub.asked();
    let (uri, headers) = &asked[0];
    assert_eq!(uri.path(), "/someone/before/resolve/main/onnx/model.onnx");
    assert_eq!(headers["authorization"], "Bearer topsecret");
    assert!(!(out + &err).contains("topsecret"));
    let manifest =
        std::fs::read_to_string(machine.models().join("mine/model.toml")).expect("pulled");
    all_in(
        &manifest,
        &[
            "# Random weights",
            "pulled from someone/before at main, commit 0011",
        ],
    );
    assert!(!manifest.contains("[hub]"), "{manifest}");
}
