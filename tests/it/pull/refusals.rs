//! Pulls that must not end with a model in place.

use std::time::Duration;

use ragbus::adapters::hub::{Hub, HubAccess, Recipe, Stage};
use ragbus::error::ErrorKind;

use super::*;
use crate::hub_server::{Fault, OLD_NAME};

#[tokio::test(flavor = "multi_thread")]
async fn what_came_damaged_is_never_put_in_place() {
    let hub = hub().await;
    let machine = Machine::new(hub.url());
    let etag = sha256(&std::fs::read(fixture("model.onnx")).expect("the fixture"));
    let cases: [(&str, Fault, &[&str]); 11] = [
        (
            GRAPH,
            Fault::Altered,
            &["model.onnx came damaged", "it has sha256", &etag],
        ),
        (
            GRAPH,
            Fault::Shorter,
            &["model.onnx came damaged", "59786 bytes", "119572 bytes"],
        ),
        (
            GRAPH,
            Fault::Longer,
            &["119573 bytes", "the hub states 119572 bytes"],
        ),
        (GRAPH, Fault::BreaksOff, &["no onnx/model.onnx", "by hand"]),
        (
            GRAPH,
            Fault::Status(404),
            &["the hub has no onnx/model.onnx", "--revision"],
        ),
        (GRAPH, Fault::Status(401), &["(401)", "models.hub_token"]),
        (GRAPH, Fault::Status(503), &["the hub answered 503"]),
        (
            GRAPH,
            Fault::OddEtag,
            &["etag or commit of onnx/model.onnx is none"],
        ),
        (
            TOKENIZER,
            Fault::Altered,
            &["tokenizer.json came damaged", "git id", TOKENIZER_GIT_ID],
        ),
        (
            TOKENIZER,
            Fault::Shorter,
            &["tokenizer.json came damaged", "2024 bytes"],
        ),
        (
            TOKENIZER,
            Fault::Status(404),
            &["the hub has no tokenizer.json"],
        ),
    ];
    for (path, fault, parts) in cases {
        hub.now(path, Some(fault));
        let (code, out, err) = machine.pull(&[]);
        assert_eq!(code, 1, "{path} {fault:?}: {out}{err}");
        all_in(&err, parts);
        assert!(
            machine.files().0.is_empty(),
            "{path} {fault:?}: {:?}",
            machine.files()
        );
        hub.now(path, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_checksums_and_a_hub_that_is_away_end_a_pull() {
    let hub = hub().await;
    let machine = Machine::new(hub.url());
    let etag = sha256(&std::fs::read(fixture("model.onnx")).expect("the fixture"));
    let wrong = "0".repeat(64);
    let (code, _, err) = machine.pull(&["--sha256", &wrong]);
    assert_eq!(code, 1);
    all_in(&err, &["model.onnx", &etag, "--sha256", &wrong]);
    // The checksums that are pinned with the name are not those of this repository's files.
    let (code, _, err) = machine.run(&["models", "pull", KNOWN]);
    assert_eq!(
        (code, err.contains("the recipe or --sha256 states 5d3e70fd")),
        (1, true),
        "{err}"
    );
    let (code, _, err) = machine.pull(&["--endpoint", "http://127.0.0.1:1"]);
    assert_eq!(code, 1);
    all_in(
        &err,
        &[
            "http://127.0.0.1:1",
            "models.hub_endpoint",
            "model.onnx, tokenizer.json and model.toml",
        ],
    );
    assert!(machine.files().0.is_empty());
    assert_eq!(machine.pull(&["--sha256", &etag]).0, 0);
    // A failed replacement leaves what is there.
    hub.now(GRAPH, Some(Fault::Altered));
    assert_eq!(machine.pull(&["--force"]).0, 1);
    assert_eq!(
        machine
            .run(&["models", "list", "--json"])
            .1
            .matches("\"task\"")
            .count(),
        1
    );
    assert_eq!(machine.files().0, [KNOWN]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_cannot_be_meant_exits_2_before_it_asks() {
    let hub = hub().await;
    let machine = Machine::new(hub.url());
    let recipe = machine.recipe("mine", OLD_NAME);
    let bad = machine.dir.path().join("bad.toml");
    let text = std::fs::read_to_string(&recipe).expect("written");
    std::fs::write(&bad, text.replace("dimension = 1", "dimension = 2")).expect("written");
    let bad = bad.to_string_lossy();
    let cases: [(&[&str], &str); 7] = [
        (
            &["bge-large"],
            "known are ms-marco-MiniLM-L-6-v2, bge-small-en-v1.5, Splade_PP_en_v1",
        ),
        (
            &["other", "--manifest", &recipe],
            "the model to pull is \"other\"",
        ),
        (
            &["mine", "--manifest", &bad],
            "dimension of a cross-encoder is 1",
        ),
        (&["mine", "--manifest", "/nowhere.toml"], "can't be read"),
        (&[KNOWN, "--sha256", "12"], "64 hexadecimal digits"),
        (
            &[KNOWN, "--revision", "../x"],
            "a branch, a tag or a commit",
        ),
        (
            &[KNOWN, "--endpoint", "https://me:pw@hub"],
            "models.hub_token is for secrets",
        ),
    ];
    for (args, expected) in cases {
        let (code, _, err) = machine.run(&[&["models", "pull"], args].concat());
        assert_eq!((code, err.contains(expected)), (2, true), "{args:?}: {err}");
    }
    for name in [KNOWN, "bge-small-en-v1.5", "Splade_PP_en_v1"] {
        let (code, out, err) = machine.run(&["models", "pull", name, "--show-manifest"]);
        assert_eq!(
            (code, out.contains(&format!("id = {name:?}"))),
            (0, true),
            "{err}"
        );
    }
    // A folder that somebody made by hand is theirs.
    let place = machine.models().join(KNOWN);
    std::fs::create_dir_all(&place).expect("made");
    let (code, _, err) = machine.pull(&[]);
    assert_eq!(
        (code, err.contains("no usable model; --force")),
        (2, true),
        "{err}"
    );
    assert!(hub.asked().is_empty());
    let (code, _, err) = machine.pull(&["--force"]);
    assert_eq!((code, machine.files().1.len()), (0, 4), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_never_answers_is_given_up() {
    let server = hub().await;
    server.now(TOKENIZER, Some(Fault::Never));
    let machine = Machine::new(server.url());
    let recipe = Recipe::known(KNOWN).expect("known");
    let stage = Stage::open(&machine.models(), recipe.id()).expect("a stage");
    let access = HubAccess {
        endpoint: server.url(),
        token: String::new(),
        draws: false,
        patience: Duration::from_millis(500),
    };
    let hub = Hub::new(access, recipe, stage).expect("a client");
    let asked = tokio::task::spawn_blocking(move || hub.look_up()).await;
    let error = asked.expect("no panic").expect_err("silent");
    assert_eq!(error.kind(), ErrorKind::DependencyFailed);
    all_in(
        &error.chain(),
        &["broke off", "the hub sent nothing for 500ms"],
    );
    assert!(names(&machine.models()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etag_that_a_proxy_weakened_still_counts() {
    let hub = hub().await;
    let machine = Machine::new(hub.url());
    hub.now(TOKENIZER, Some(Fault::WeakEtag));
    let (code, out, err) = machine.pull(&[]);
    assert_eq!(code, 0, "{out}{err}");
}
