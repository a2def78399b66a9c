//! The commands: what they print, and how they exit.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::*;

fn run(command: &mut Command) -> (i32, String, String) {
    ended(&command.output().expect("runs"))
}

fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn with_input(command: &mut Command, input: &str) -> (i32, String, String) {
    let pipes = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    ended(&child.wait_with_output().expect("ends"))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON lines"))
        .collect()
}

fn folder(root: &Path) {
    std::fs::create_dir_all(root.join("sub")).expect("made");
    std::fs::create_dir_all(root.join(".hidden")).expect("made");
    std::fs::write(root.join("owl.txt"), "owls hunt mice at night").expect("written");
    std::fs::write(
        root.join("sub/badger.md"),
        "# Badgers\n\nBadgers dig setts.",
    )
    .expect("written");
    std::fs::write(root.join("bad.bin"), [0xff_u8; 64]).expect("written");
    std::fs::write(root.join(".hidden/secret.txt"), "hidden").expect("written");
}

fn readable(query: &mut Command) {
    let (code, out, _) = run(query);
    assert_eq!(code, 0);
    for shown in ["owl.txt", "RRF", "model calls"] {
        assert!(out.contains(shown), "{out}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ingest_tells_every_failure_and_queries_find_the_rest() {
    let service = Service::start().await;
    let docs = service.dir.path().join("docs");
    folder(&docs);
    let command = |args: &[&str]| {
        let mut command = ragbus(&service.nats.url(), service.dir.path());
        command
            .args(args)
            .args(["--tenant", "t1", "--corpus", "docs"]);
        command
    };
    let (code, out, err) = run(command(&["ingest", "--metadata", r#"{"from":"cli"}"#]).arg(&docs));
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("1 FAILED, 2 INDEXED"), "{out}");
    assert!(
        err.contains("failed: bad.bin: data is no UTF-8 text (invalid_field)"),
        "{err}"
    );
    let (code, out, _) = run(&mut command(&["query", "badgers", "--json", "--explain"]));
    assert_eq!(code, 0);
    let reply: Value = serde_json::from_str(&out).expect("one RetrieveResponse");
    assert_eq!(reply["outcome"], "OK");
    assert_eq!(reply["results"][0]["documentId"], "sub/badger.md");
    assert_eq!(reply["results"][0]["metadata"]["from"], "cli");
    assert!(
        reply["results"][0]["signals"]["dense"]["rank"].is_number(),
        "{reply}"
    );
    readable(&mut command(&["query", "who hunts mice?"]));
    let (code, _, err) = run(&mut command(&["query", "x", "--limit", "-1"]));
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("limit must be 1 to 100 (422 invalid_field)"),
        "{err}"
    );
    let (code, out, _) = run(&mut command(&["delete", "owl.txt", "never-was", "--json"]));
    assert_eq!(code, 0, "deleting what is absent is no failure");
    assert!(
        lines(&out).iter().all(|r| r["status"] == "DELETED"),
        "{out}"
    );
    let (code, out, _) = run(&mut command(&["delete", "--whole-corpus"]));
    assert_eq!((code, out.contains("1 DELETED")), (0, true), "{out}");
    assert!(
        service
            .t1
            .contents("docs", "sub/badger.md")
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ingest_reads_json_lines() {
    let service = Service::start().await;
    let base = || ragbus(&service.nats.url(), service.dir.path());
    let input = "{\"documentId\":\"a\",\"text\":\"first\",\"metadata\":{\"year\":2020}}\n\n\
        {\"documentId\":\"b\",\"chunks\":[{\"content\":\"one\"},{\"content\":\"two\"}]}\n\
        not json\n{\"documentId\":\"c\",\"txt\":\"typo\"}\n";
    let target = ["--tenant", "t1", "--corpus", "c"];
    let (code, out, err) = with_input(base().args(["ingest", "-", "--json"]).args(target), input);
    assert_eq!(code, 1, "two lines are wrong: {err}");
    let results = lines(&out);
    assert_eq!(results.len(), 2, "{out}");
    assert!(
        results
            .iter()
            .all(|r| r["status"] == "INDEXED" && r["corpus"] == "c"),
        "{out}"
    );
    assert!(
        err.contains("failed: line 4: ") && err.contains("failed: line 5: "),
        "{err}"
    );
    assert!(err.contains("unknown field `txt`"), "{err}");
    assert_eq!(service.t1.contents("c", "b").await, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_the_system_with_and_without_a_worker() {
    let service = Service::start().await;
    let base = || ragbus(&service.nats.url(), service.dir.path());
    let target = ["--tenant", "t1", "--corpus", "c"];
    service.t1.indexed(&put("c", "a", "one")).await;
    let two = ["two".to_owned(), "three".to_owned()];
    service.t1.indexed(&put_chunks("c", "b", &two)).await;
    let (code, out, _) = run(base().args(["status", "--tenant", "t1", "--json"]));
    assert_eq!(code, 0);
    let status: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(1));
    assert_eq!(status["streams"].as_array().map(Vec::len), Some(4));
    assert_eq!(
        (
            &status["corpora"][0]["documents"],
            &status["corpora"][0]["chunks"]
        ),
        (&2.into(), &3.into())
    );
    let (code, out, _) = run(base().args(["status", "--tenant", "t1"]));
    assert_eq!(code, 0);
    assert!(
        out.contains("workers ready") && out.contains("RAG_INGEST"),
        "{out}"
    );
    service.worker.terminate();
    let Service {
        mut worker,
        nats,
        dir,
        ..
    } = service;
    worker.ended(PATIENCE).await;
    let (code, out, _) = run(ragbus(&nats.url(), dir.path()).args(["status"]));
    assert_eq!(
        (code, out.contains("no worker is ready")),
        (1, true),
        "{out}"
    );
    let (code, _, err) = run(ragbus(&nats.url(), dir.path())
        .args(["query", "x"])
        .args(target));
    assert_eq!(code, 1);
    assert!(err.contains("no worker serves"), "{err}");
}

#[test]
fn configuration_is_printed_without_secrets_and_typos_exit_2() {
    let dir = tempfile::tempdir().expect("a folder");
    let base = |args: &[&str]| {
        let mut command = ragbus("nats://worker:topsecret@127.0.0.1:4222", dir.path());
        command.args(args);
        command
    };
    for args in [&["check-config"][..], &["check-config", "--json"]] {
        let keys = [
            ("RAGBUS__STORE__QDRANT__API_KEY", "topsecret"),
            ("RAGBUS__LLM__API_KEY", "topsecret"),
            ("RAGBUS__MODELS__HUB_TOKEN", "topsecret"),
        ];
        let (code, out, err) = run(base(args).envs(keys));
        assert_eq!(code, 0, "{err}");
        assert!(!out.contains("topsecret"), "{out}");
        assert!(out.contains("<redacted>") && out.contains("rrf_k"), "{out}");
    }
    let (code, _, err) = run(base(&["check-config"]).env("RAGBUS__RETRIEVAL__DEPHT", "5"));
    assert_eq!((code, err.contains("depht")), (2, true), "{err}");
    let file = dir.path().join("ragbus.toml");
    std::fs::write(&file, "[retrieval]\ndepth = 7\nnonsense = 1\n").expect("written");
    let (code, _, err) = run(base(&["check-config", "--config"]).arg(&file));
    assert_eq!((code, err.contains("nonsense")), (2, true), "{err}");
    std::fs::write(&file, "[retrieval]\ndepth = 7\n").expect("written");
    let (code, out, _) = run(base(&["check-config", "--config"]).arg(&file));
    assert_eq!((code, out.contains("depth = 7")), (0, true), "{out}");
    assert_eq!(run(&mut base(&["no-such-command"])).0, 2);
    let (code, _, err) = run(base(&["worker"]).env("RAGBUS__ONNX__LIBRARY", "/nowhere.so"));
    assert_eq!((code, err.contains("onnx.library")), (2, true), "{err}");
}

#[test]
fn models_are_listed() {
    let dir = tempfile::tempdir().expect("a folder");
    let base = || ragbus("nats://127.0.0.1:1", dir.path());
    let (code, out, err) = run(base().args(["models", "list", "--json"]));
    assert_eq!(code, 0, "{err}");
    let models = lines(&out);
    let find = |id: &str| {
        models
            .iter()
            .find(|m| m["id"] == id)
            .unwrap_or_else(|| panic!("{id}: {out}"))
    };
    assert_eq!(
        (
            &find("minilm-l6-v2")["task"],
            &find("minilm-l6-v2")["dimension"]
        ),
        (&"dense".into(), &384.into())
    );
    assert_eq!(
        (&find("splade-tiny")["task"], &find("splade-tiny")["inUse"]),
        (&"sparse".into(), &true.into())
    );
    let (code, out, _) = run(base().args(["models", "list"]));
    assert_eq!(
        (code, out.contains("minilm-l6-v2-int8")),
        (0, true),
        "{out}"
    );
    let pair = find("minilm-pair");
    assert_eq!(
        (&pair["task"], &pair["inUse"]),
        (&"cross-encoder".into(), &false.into())
    );
    let (code, out, err) = run(base().args(["models", "verify"]));
    assert_eq!((code, out.matches(": ok").count()), (0, 2), "{out}{err}");
    let with_pairs = || {
        let mut command = base();
        command.env("RAGBUS__MODELS__CROSS_ENCODER", "minilm-pair");
        command
    };
    let (code, out, err) = run(with_pairs().args(["models", "verify"]));
    assert_eq!((code, out.matches(": ok").count()), (0, 3), "{out}{err}");
    let (_, out, _) = run(with_pairs().args(["models", "list", "--json"]));
    let pair = lines(&out).into_iter().find(|m| m["id"] == "minilm-pair");
    assert_eq!(pair.expect("listed")["inUse"], true);
    let (code, _, err) = run(base()
        .args(["models", "list"])
        .env("RAGBUS__MODELS__DIR", "/nowhere"));
    assert_eq!((code, err.contains("make setup")), (2, true), "{err}");
}
