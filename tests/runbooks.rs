//! Alerts and runbooks: each alert has the runbook of its name, each runbook its alert, and alerts ask for metrics that exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn alerts() -> String {
    read("deploy/prometheus/alerts.yml")
}

#[test]
fn every_alert_has_its_runbook_and_every_runbook_its_alert() {
    let alerts = alerts();
    let named = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let named: BTreeSet<String> = named.map(str::to_owned).collect();
    let files = std::fs::read_dir(root().join("runbooks")).expect("runbooks");
    let files: BTreeSet<String> = files
        .map(|file| file.expect("an entry").file_name())
        .filter_map(|name| {
            name.to_string_lossy()
                .strip_suffix(".md")
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(named, files);
    for name in &files {
        let text = read(&format!("runbooks/{name}.md"));
        assert!(text.starts_with(&format!("# {name}\n")), "{name}");
        for part in ["**What it means.**", "**Look.**", "**Do.**"] {
            assert!(text.contains(part), "{name} has no {part}");
        }
    }
}

/// As the exporter writes names: dots become underscores, counters end in `_total`, seconds in `_seconds`.
#[test]
fn alerts_ask_for_metrics_that_exist() {
    let sources = [
        "src/telemetry/metrics.rs",
        "src/telemetry/tracking_metrics.rs",
    ]
    .map(read);
    let told: String = sources.concat();
    let exported: BTreeSet<String> = told
        .split('"')
        .filter(|text| text.starts_with("ragbus.") && !text.contains(' '))
        .map(|name| name.replace('.', "_"))
        .collect();
    let alerts = alerts();
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let asked: BTreeSet<&str> = alerts
        .split(word)
        .filter(|word| word.starts_with("ragbus_"))
        .collect();
    assert!(asked.len() >= 4, "{asked:?}");
    for name in asked {
        let bare = name.trim_end_matches("_total").trim_end_matches("_seconds");
        assert!(exported.contains(bare), "{name} is no metric");
    }
}
