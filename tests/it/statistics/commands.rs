//! `ragbus stats`, `audit` and `qrels` through a running service.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::rows::WINDOW;
use super::{LARGE, Tracking};

fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    (code, text(&output.stdout), text(&output.stderr))
}

fn done(command: &mut Command) -> (String, String) {
    let (code, out, err) = run(command);
    assert_eq!(code, 0, "{out}{err}");
    (out, err)
}

fn windowed<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let mut all = arguments.to_vec();
    all.extend(["--since", WINDOW[0], "--until", WINDOW[1]]);
    all
}

fn statistics(tracking: &Tracking) {
    let target = ["stats", "--tenant", "t1", "--corpus", "c"];
    let (out, _) = done(&mut tracking.command(&windowed(&target)));
    for shown in [
        "corpus c: 10 retrievals",
        "failed: 1 (10.0 %): timeout 1",
        "found nothing: 3 (30.0 %)",
        "whole request",
        "never retrieved",
        "hash 5f0c",
        "led to the same documents",
    ] {
        assert!(out.contains(shown), "{shown}: {out}");
    }
    assert!(!out.contains('\u{1b}'), "no escape reaches the terminal");
    let page = tracking.service.dir.path().join("report.html");
    let mut command = tracking.command(&windowed(&["stats", "--tenant", "t1", "--json"]));
    let (out, _) = done(command.arg("--html").arg(&page));
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(found["corpora"].as_array().map(Vec::len), Some(2));
    assert_eq!(found["corpora"][0]["unretrieved"][0]["documentId"], "never");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"));
    let mut command = tracking.command(&windowed(&target));
    let (out, _) = done(command.args(["--view", "feedback", "--limit", "4", "--json"]));
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(found["judgements"].as_array().map(Vec::len), Some(4));
    assert_eq!(found["truncated"], true);
    let (code, _, err) =
        run(&mut tracking.command(&["stats", "--tenant", "t1", "--view", "latencies"]));
    assert_eq!(
        (code, err.contains("corpus must be set")),
        (2, true),
        "{err}"
    );
}

/// Exported, read back, and tampered with.
fn audit(tracking: &Tracking) {
    let path = tracking.service.dir.path().join("audit.jsonl");
    let export = ["audit", "export", "--tenant", "t1", "--out"];
    let mut arguments = export.to_vec();
    arguments.push(path.to_str().expect("text"));
    let (_, err) = done(&mut tracking.command(&windowed(&arguments)));
    assert!(
        err.contains("11 retrievals; last hash") && !err.contains("warning"),
        "{err}"
    );
    let text = std::fs::read_to_string(&path).expect("a file");
    exported_lines(&text);
    verified(tracking, &path, &text);
    let (code, _, err) = run(&mut tracking.command(&windowed(&arguments)));
    assert_eq!((code, err.contains("is there already")), (2, true), "{err}");
    let mut late = tracking.command(&["audit", "export", "--tenant", "t1", "--since", WINDOW[0]]);
    let (out, err) = done(late.args(["--until", "2999-01-01T00:00:00Z"]));
    assert!(err.contains("is in the future"), "{err}");
    assert!(out.starts_with("{\"kind\":\"header\"") && out.contains("\"windowClosed\":false"));
}

fn exported_lines(text: &str) {
    assert!(!text.contains("t2"), "0 foreign rows");
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    assert_eq!((lines.len(), &lines[12]["count"]), (13, &json!(11)));
    let first = &lines[1];
    assert_eq!(
        (&first["actor"], &first["purpose"]),
        (&json!("clerk-17"), &json!("claim handling"))
    );
    assert_eq!(first["chunks"][0]["fate"], "RETURNED");
    assert_eq!(first["chunks"][0]["signals"]["crossEncoderLogit"], 3.25);
    assert_eq!(first["query"]["text"], "which birds hunt mice at night?");
}

fn verified(tracking: &Tracking, path: &Path, text: &str) {
    let verify = |path: &Path, more: &[&str]| {
        run(tracking.command(&["audit", "verify"]).arg(path).args(more))
    };
    let (code, out, _) = verify(path, &[]);
    assert_eq!(
        (code, out.contains("sound: 11 retrievals of tenant t1")),
        (0, true),
        "{out}"
    );
    let (code, _, _) = verify(path, &["--hash", "00"]);
    assert_eq!(code, 1, "another last hash");
    let changed = path.with_extension("changed");
    std::fs::write(&changed, text.replace("clerk-17\"", "clerk-18\"")).expect("written");
    let (code, out, _) = verify(&changed, &[]);
    assert_eq!(
        (code, out.contains("line 2 was changed")),
        (1, true),
        "{out}"
    );
}

/// Pages that are cut to the message limit go on where they were cut.
fn large_audit(tracking: &Tracking) {
    let path = tracking.service.dir.path().join("large.jsonl");
    let mut arguments = vec!["audit", "export", "--tenant", "large", "--out"];
    arguments.push(path.to_str().expect("text"));
    done(&mut tracking.command(&windowed(&arguments)));
    let mut command = tracking.command(&["audit", "verify", "--json"]);
    let (out, _) = done(command.arg(&path));
    let told: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&told["valid"], &told["count"]),
        (&json!(true), &json!(LARGE))
    );
}

/// What users judged, measured.
fn judgements(tracking: &Tracking) {
    let folder = tracking.service.dir.path().join("judged");
    let target = [
        "qrels", "export", "--tenant", "t1", "--corpus", "c", "--json", "--out",
    ];
    let (out, _) = done(tracking.command(&target).arg(&folder));
    let told: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&told["topics"], &told["pairs"], &told["skippedHashed"]),
        (&json!(2), &json!(3), &json!(1))
    );
    let qrels = std::fs::read_to_string(folder.join("qrels.tsv")).expect("judgements");
    assert!(
        qrels.contains("\t0\towl\t3\n"),
        "the last judgement counts: {qrels}"
    );
    let mut eval = tracking.command(&["eval", "--tenant", "t1", "--corpus", "c"]);
    eval.args(["--configurations", "hybrid", "--json"])
        .arg(&folder);
    let (out, _) = done(&mut eval);
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&found["queries"], &found["judgedPairs"]),
        (&json!(2), &json!(3))
    );
    let ndcg = &found["configurations"][0]["metrics"]["nDCG@10"]["mean"];
    assert!(ndcg.as_f64().is_some_and(|mean| mean > 0.9), "{found}");
    let (code, _, err) = run(tracking
        .command(&[
            "qrels", "export", "--tenant", "t3", "--corpus", "c", "--out",
        ])
        .arg(&folder));
    assert_eq!(
        (code, err.contains("no judgement to export")),
        (1, true),
        "{err}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_show_export_and_measure_over_sqlite() {
    let (tracking, _tracker) = Tracking::sqlite().await;
    tokio::task::block_in_place(|| {
        statistics(&tracking);
        audit(&tracking);
        large_audit(&tracking);
        judgements(&tracking);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn t5_exports_are_whole_and_checked_over_postgres() {
    let (tracking, _tracker) = Tracking::postgres().await;
    tokio::task::block_in_place(|| {
        audit(&tracking);
        large_audit(&tracking);
        judgements(&tracking);
    });
}
