//! `ragbus eval`: judged queries through a service, run files without one.

use std::path::{Path, PathBuf};
use std::process::Command;

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

#[tokio::test(flavor = "multi_thread")]
async fn stages_are_measured_through_the_service_and_what_it_lacks_is_told() {
    let service = Service::start().await;
    let dir = service.dir.path();
    let folder = beir(dir);
    let eval = |corpus: &str| {
        let mut command = ragbus(&service.nats.url(), dir);
        command
            .arg("eval")
            .arg(&folder)
            .args(["--tenant", "t1", "--corpus", corpus]);
        command
    };
    let (code, _, err) = run(&mut eval("never"));
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("the corpus doesn't exist"), "{err}");
    let (html, runs) = (dir.join("report.html"), dir.join("runs"));
    let mut command = eval("beir");
    command
        .args(["--ingest", "--json", "--html"])
        .arg(&html)
        .arg("--run-out")
        .arg(&runs);
    let found = answer(&mut command);
    assert_eq!(
        (&found["queries"], &found["judgedPairs"]),
        (&4.into(), &8.into())
    );
    for name in ["dense", "sparse", "hybrid"] {
        let one = configuration(&found, name);
        assert!(ndcg(&found, name) > 0.9, "{one}");
        assert!(
            one["latencyMs"]["p95"].as_f64() >= one["latencyMs"]["p50"].as_f64(),
            "{one}"
        );
        assert!(
            one["metrics"]["Recall@100"]["mean"].is_number()
                && one["stages"][0]["name"].is_string(),
            "{one}"
        );
    }
    assert_eq!(
        configuration(&found, "dense")["scores"][0]["kind"],
        "COSINE"
    );
    assert_eq!(
        configuration(&found, "hybrid")["scores"][0]["relevant"]["count"],
        4
    );
    let skipped = configuration(&found, "corrective-grade");
    assert_eq!(skipped["status"], "SKIPPED");
    assert!(
        skipped["reason"]
            .as_str()
            .is_some_and(|r| r.contains("options.corrective")),
        "{skipped}"
    );
    let verdict = &found["comparisons"][0];
    assert_eq!(
        (&verdict["configuration"], &verdict["baseline"]),
        (&"sparse".into(), &"dense".into())
    );
    let page = std::fs::read_to_string(&html).expect("a report");
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("corrective-grade"),
        "{page}"
    );
    // What was written for other tools says the same.
    let mut command = ragbus("nats://127.0.0.1:1", dir);
    command
        .args(["eval", "--json", "--qrels"])
        .arg(folder.join("qrels/test.tsv"));
    let written = answer(
        command
            .arg("--run")
            .arg(runs.join("dense.run"))
            .arg(runs.join("hybrid.run")),
    );
    assert_eq!(ndcg(&written, "hybrid.run"), ndcg(&found, "hybrid"));
    let own = dir.join("own.jsonl");
    std::fs::write(
        &own,
        "{\"name\":\"k10\",\"options\":{\"fusion\":{\"k\":10}}}\n",
    )
    .expect("written");
    let (code, out, err) = run(eval("beir")
        .arg("--configurations")
        .arg(&own)
        .args(["--queries", "2"]));
    assert_eq!(
        (code, out.contains("k10") && out.contains("2 queries")),
        (0, true),
        "{out}{err}"
    );
    let (code, _, err) = run(eval("beir").args(["--configurations", "hybird"]));
    assert_eq!((code, err.contains("not built in")), (2, true), "{err}");
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
