//! `ragbus eval` and `ragbus calibrate`: judged queries through a service, run files without one.

use std::path::{Path, PathBuf};
use std::process::Command;

use futures::StreamExt;
use serde_json::{Value, json};

use crate::harness::*;

const DOCUMENTS: &[(&str, &str)] = &[
    ("owl", "Owls hunt mice at night and fly without a sound."),
    (
        "badger",
        "Badgers dig setts and live underground in families.",
    ),
    ("bread", "Bread rises because yeast makes gas in the dough."),
    (
        "ship",
        "A ship floats because it displaces its own weight of water.",
    ),
    ("empty", ""),
];

const QUERIES: &[(&str, &str, &str)] = &[
    ("q1", "which birds hunt mice at night?", "owl"),
    ("q2", "where do badgers live?", "badger"),
    ("q3", "why does bread rise?", "bread"),
    ("q4", "why do ships float on water?", "ship"),
];

fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    (code, text(&output.stdout), text(&output.stderr))
}

fn answer(command: &mut Command) -> Value {
    let (code, out, err) = run(command);
    assert_eq!(code, 0, "{out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

fn beir(root: &Path) -> PathBuf {
    let folder = root.join("beir");
    std::fs::create_dir_all(folder.join("qrels")).expect("made");
    let corpus = DOCUMENTS
        .iter()
        .map(|(id, text)| json!({ "_id": id, "title": "", "text": text }));
    let queries = QUERIES
        .iter()
        .map(|(id, text, _)| json!({ "_id": id, "text": text }));
    let lines = |lines: &mut dyn Iterator<Item = Value>| {
        lines.map(|l| format!("{l}\n")).collect::<String>()
    };
    let mut qrels = "query-id\tcorpus-id\tscore\n".to_owned();
    for (query, _, document) in QUERIES {
        qrels.push_str(&format!("{query}\t{document}\t1\n{query}\tempty\t0\n"));
    }
    std::fs::write(folder.join("corpus.jsonl"), lines(&mut corpus.into_iter())).expect("written");
    std::fs::write(
        folder.join("queries.jsonl"),
        lines(&mut queries.into_iter()),
    )
    .expect("written");
    std::fs::write(folder.join("qrels/test.tsv"), qrels).expect("written");
    folder
}

fn configuration<'a>(findings: &'a Value, name: &str) -> &'a Value {
    let all = findings["configurations"].as_array().expect("a list");
    let found = all.iter().find(|c| c["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {findings}"))
}

fn ndcg(findings: &Value, name: &str) -> f64 {
    let mean = &configuration(findings, name)["metrics"]["nDCG@10"]["mean"];
    mean.as_f64()
        .unwrap_or_else(|| panic!("{name}: {findings}"))
}

fn has_figures(found: &Value) {
    assert_eq!(
        (&found["queries"], &found["judgedPairs"]),
        (&4.into(), &8.into())
    );
    for name in ["dense", "sparse", "hybrid"] {
        let one = configuration(found, name);
        assert!(ndcg(found, name) > 0.9, "{one}");
        let latency = |percent: &str| one["latencyMs"][percent].as_f64().expect("a time");
        assert!(latency("p95") >= latency("p50"), "{one}");
        assert!(one["metrics"]["Recall@100"]["mean"].is_number(), "{one}");
        assert!(one["stages"][0]["name"].is_string(), "{one}");
        assert!(one["byQuery"]["q3"].is_number(), "{one}");
    }
    let scores = |name: &str| &configuration(found, name)["scores"][0];
    assert_eq!(scores("dense")["kind"], "COSINE");
    assert_eq!(scores("hybrid")["relevant"]["count"], 4);
    let verdict = &found["comparisons"][0];
    assert_eq!(
        (&verdict["configuration"], &verdict["baseline"]),
        (&"sparse".into(), &"dense".into())
    );
}

fn tells_what_was_skipped(found: &Value) {
    let skipped = configuration(found, "corrective-grade");
    assert_eq!(skipped["status"], "SKIPPED");
    let reason = skipped["reason"].as_str().expect("a reason");
    assert!(reason.contains("options.corrective"), "{reason}");
}

/// What was written for other tools says the same.
fn written_runs_agree(dir: &Path, found: &Value) {
    let mut command = ragbus("nats://127.0.0.1:1", dir);
    let qrels = dir.join("beir/qrels/test.tsv");
    command.args(["eval", "--json", "--qrels"]).arg(qrels);
    let runs = ["dense.run", "hybrid.run"].map(|run| dir.join("runs").join(run));
    let written = answer(command.arg("--run").args(runs));
    assert_eq!(ndcg(&written, "hybrid.run"), ndcg(found, "hybrid"));
}

#[tokio::test(flavor = "multi_thread")]
async fn stages_are_measured_through_the_service_and_what_it_lacks_is_told() {
    let service = Service::start().await;
    let dir = service.dir.path();
    let folder = beir(dir);
    let on = |subcommand: &str, corpus: &str| {
        let mut command = ragbus(&service.nats.url(), dir);
        let target = ["--tenant", "t1", "--corpus", corpus];
        command.arg(subcommand).arg(&folder).args(target);
        command
    };
    let (code, _, err) = run(&mut on("eval", "never"));
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("the corpus doesn't exist"), "{err}");
    let html = dir.join("report.html");
    let mut command = on("eval", "beir");
    command.args(["--ingest", "--json", "--html"]).arg(&html);
    let found = answer(command.arg("--run-out").arg(dir.join("runs")));
    has_figures(&found);
    tells_what_was_skipped(&found);
    written_runs_agree(dir, &found);
    let page = std::fs::read_to_string(&html).expect("a report");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("corrective-grade"));
    let own = dir.join("own.jsonl");
    let line = "{\"name\":\"k10\",\"options\":{\"fusion\":{\"k\":10}}}\n";
    std::fs::write(&own, line).expect("written");
    let mut command = on("eval", "beir");
    command
        .args(["--queries", "2", "--configurations"])
        .arg(&own);
    let (code, out, err) = run(&mut command);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("k10") && out.contains("2 queries"), "{out}");
    let (code, _, err) = run(on("eval", "beir").args(["--configurations", "hybird"]));
    assert_eq!((code, err.contains("not built in")), (2, true), "{err}");
    let (code, _, err) = run(&mut on("calibrate", "beir"));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("set models.cross_encoder"), "{err}");
}

#[test]
fn run_files_are_compared_without_a_service() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    let (mut qrels, mut base, mut better) = (String::new(), String::new(), String::new());
    for query in 0..20 {
        qrels.push_str(&format!("q{query} 0 a 1\n"));
        base.push_str(&format!("q{query} Q0 b 1 2.0 t\nq{query} Q0 a 2 1.0 t\n"));
        better.push_str(&format!("q{query} Q0 a 1 2.0 t\n"));
    }
    std::fs::write(path("qrels"), qrels).expect("written");
    std::fs::write(path("base.run"), base).expect("written");
    std::fs::write(path("better.run"), better).expect("written");
    let eval = |runs: &[&str]| {
        let mut command = ragbus("nats://127.0.0.1:1", dir.path());
        command
            .args(["eval", "--qrels"])
            .arg(path("qrels"))
            .arg("--run");
        command.args(runs.iter().map(|run| path(run)));
        command
    };
    let found = answer(eval(&["base.run", "better.run"]).arg("--json"));
    assert!((ndcg(&found, "base.run") - 1.0 / 3f64.log2()).abs() < 1e-12);
    let by_ndcg = &found["comparisons"][0];
    assert_eq!(
        (&by_ndcg["verdict"], &by_ndcg["wins"]),
        (&"HELPS".into(), &20.into()),
        "{by_ndcg}"
    );
    let (code, out, _) = run(&mut eval(&["base.run", "better.run"]));
    assert_eq!(
        (code, out.contains("better.run is better than base.run")),
        (0, true),
        "{out}"
    );
    std::fs::write(path("bad.run"), "q0 Q0 a 1 high t\n").expect("written");
    let (code, _, err) = run(&mut eval(&["base.run", "bad.run"]));
    assert_eq!(
        (
            code,
            err.contains("bad.run line 1 has a score that is no number")
        ),
        (2, true),
        "{err}"
    );
    let bare = run(ragbus("nats://127.0.0.1:1", dir.path()).arg("eval"));
    assert_eq!(bare.0, 2, "{}", bare.2);
}

/// Documents below it are graded `INCORRECT`.
const DROPPED: u32 = 8;

/// Grades every query's documents alike, as a service with a cross-encoder `ce` would; has no room for the first request.
async fn grading_service(nats: &Nats) {
    let client = nats.client().await;
    let mut asked = client.subscribe("rag.*.t1").await.expect("subscribed");
    client.flush().await.expect("flushed");
    let result = |n: u32| {
        let grade = if n < DROPPED {
            "INCORRECT"
        } else {
            "AMBIGUOUS"
        };
        let signals = json!({ "crossEncoderLogit": f64::from(n) - 10.0 });
        json!({ "documentId": format!("d{n}"), "grade": grade, "signals": signals })
    };
    let results: Vec<Value> = (0..22).map(result).collect();
    let models = json!({ "crossEncoder": "ce" });
    let graded = json!({ "outcome": "OK", "results": results, "models": models });
    let info = json!({ "info": { "legs": ["dense"], "models": models } });
    tokio::spawn(async move {
        let mut busy = true;
        while let Some(message) = asked.next().await {
            let catalog = message.subject.contains("catalog");
            let mut all = headers(&[JSON]);
            let mut body = if catalog { &info } else { &graded }.to_string();
            if !catalog && std::mem::take(&mut busy) {
                all.insert("Nats-Service-Error-Code", "503");
                body = json!({ "code": 503, "kind": "overloaded", "retryAfterMs": 10 }).to_string();
            }
            let reply = message.reply.expect("an address");
            let sent = client.publish_with_headers(reply, all, body.into());
            sent.await.expect("sent");
        }
    });
}

fn relevant(query: u32, document: u32) -> bool {
    (document * 7 + query * 13) % 20 < document
}

/// Documents 0 to 19 are judged, the more of them relevant the higher their number; 20 and 21 are not.
fn judged(root: &Path) -> PathBuf {
    let folder = root.join("judged");
    std::fs::create_dir_all(&folder).expect("made");
    let (mut queries, mut qrels) = (String::new(), String::new());
    for query in 0..40 {
        queries.push_str(&format!(
            "{}\n",
            json!({ "_id": format!("q{query}"), "text": "anything" })
        ));
        for document in 0..20 {
            let grade = i32::from(relevant(query, document));
            qrels.push_str(&format!("q{query}\td{document}\t{grade}\n"));
        }
    }
    std::fs::write(folder.join("queries.jsonl"), queries).expect("written");
    std::fs::write(folder.join("qrels.tsv"), qrels).expect("written");
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn a_calibration_is_written_beside_what_the_manifest_says() {
    let nats = Nats::start().await;
    grading_service(&nats).await;
    let dir = tempfile::tempdir().expect("a folder");
    let (folder, manifest) = (judged(dir.path()), dir.path().join("models/ce/model.toml"));
    let calibrate = |more: &[&str]| {
        let mut command = ragbus(&nats.url(), dir.path());
        command
            .arg("calibrate")
            .arg(&folder)
            .args(["--tenant", "t1", "--corpus", "docs", "--json"]);
        command
            .arg("--model-dir")
            .arg(dir.path().join("models"))
            .args(more);
        command
    };
    let (code, _, err) = run(&mut calibrate(&[]));
    assert_eq!((code, err.contains("--model-dir")), (2, true), "{err}");
    std::fs::create_dir_all(dir.path().join("models/ce")).expect("made");
    std::fs::write(&manifest, "id = \"ce\" # kept\n").expect("written");
    let read = || std::fs::read_to_string(&manifest).expect("the manifest");
    let dry = answer(&mut calibrate(&["--dry-run"]));
    assert_eq!(
        (&dry["written"], read().as_str()),
        (&false.into(), "id = \"ce\" # kept\n")
    );
    assert_eq!(
        (
            &dry["judgedQueries"],
            &dry["heldOutQueries"],
            &dry["unjudged"]
        ),
        (&20.into(), &20.into(), &80.into())
    );
    assert!(
        dry["heldOut"]["precision"].as_f64().expect("a share") > 0.75,
        "{dry}"
    );
    assert!(
        dry["heldOut"]["missRate"].as_f64().expect("a share") < 0.1,
        "{dry}"
    );
    let done = answer(&mut calibrate(&["--concurrency", "4"]));
    assert_eq!(
        done["id"], dry["id"],
        "the same judgements and seed give the same"
    );
    answer(&mut calibrate(&["--per-corpus", "--precision", "0.7"]));
    let written: toml::Table = read().parse().expect("TOML");
    assert!(read().starts_with("id = \"ce\" # kept\n"), "{}", read());
    let calibration = &written["calibration"];
    assert_eq!(calibration["id"].as_str(), done["id"].as_str());
    assert_eq!(
        calibration["positives"].as_integer(),
        done["positives"].as_i64()
    );
    let of_corpus = &calibration["corpora"]["t1/docs"];
    assert!(
        of_corpus["correct"].as_float() < calibration["correct"].as_float(),
        "{written}"
    );
    let (code, _, err) = run(&mut calibrate(&["--min-pairs", "1000"]));
    assert_eq!(
        (code, err.contains("too few judged pairs")),
        (1, true),
        "{err}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_filtering_would_drop_is_told() {
    let nats = Nats::start().await;
    grading_service(&nats).await;
    let dir = tempfile::tempdir().expect("a folder");
    let folder = judged(dir.path());
    let mut command = ragbus(&nats.url(), dir.path());
    command.arg("eval").arg(&folder).arg("--json");
    command.args(["--tenant", "t1", "--corpus", "docs"]);
    let found = answer(command.args(["--configurations", "corrective-grade"]));
    let pairs = || (0..40).flat_map(|query| (0..20).map(move |document| (query, document)));
    let all = pairs().filter(|(query, document)| relevant(*query, *document));
    let dropped = all.clone().filter(|(_, document)| *document < DROPPED);
    let (all, dropped) = (all.count(), dropped.count());
    let told = &configuration(&found, "corrective-grade")["filterWouldDrop"];
    assert!(dropped > 0, "the test drops something");
    assert_eq!(
        (&told["relevantChunks"], &told["droppedChunks"]),
        (&all.into(), &dropped.into())
    );
    assert_eq!(told["share"].as_f64(), Some(dropped as f64 / all as f64));
}
