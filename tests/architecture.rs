//! Reads `src/` and fails when a module names a crate or a layer outside its row: Cargo can't stop that inside one package.

#[path = "architecture/rows.rs"]
mod rows;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rows::ROWS;

/// Crates that are language more than dependency: traits, futures, spans.
const PLAIN: &[&str] = &["async_trait", "futures", "tracing", "tokio"];

fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let below = entries.flat_map(|entry| sources(&entry.expect("an entry").path()));
    below
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The production part of a file: comments and what follows the inline tests are left out.
fn production(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file");
    // Helpers of a module's tests may be shared with its siblings.
    let inline = [
        "#[cfg(test)]\nmod tests {",
        "#[cfg(test)]\npub(super) mod tests {",
    ];
    let end = inline.iter().filter_map(|start| text.find(start)).min();
    let text = text[..end.unwrap_or(text.len())].to_owned();
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Every crate this package may use, from its manifest.
fn dependencies() -> BTreeSet<String> {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .expect("the manifest");
    let section = manifest
        .split("\n[dependencies]\n")
        .nth(1)
        .expect("dependencies");
    let section = section.split("\n[").next().unwrap_or_default();
    let names = section
        .lines()
        .filter_map(|line| line.split([' ', '=']).next());
    // `config` is also a module of ours and of adapters: a path alone can't tell them apart.
    names
        .filter(|name| !name.is_empty() && *name != "config")
        .map(|name| name.replace('-', "_"))
        .collect()
}

/// Whether the text names `name::` as a crate or module, not as the tail of a longer path.
fn names(text: &str, name: &str) -> bool {
    let pattern = format!("{name}::");
    text.match_indices(&pattern).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

/// The modules of ours that the text names by `crate::`.
fn crate_paths(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        let path: String = text[at + 7..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
            .collect();
        found.insert(path);
    }
    found
}

#[test]
fn modules_name_only_the_crates_of_their_row() {
    let dependencies = dependencies();
    assert!(
        dependencies.contains("async_nats") && dependencies.len() > 20,
        "{dependencies:?}"
    );
    let mut broken = Vec::new();
    for row in ROWS {
        for path in sources(&root().join(row.path)) {
            let text = production(&path);
            for dependency in &dependencies {
                let plain = PLAIN.contains(&dependency.as_str())
                    && !matches!(row.path, "model" | "error.rs" | "fusion.rs" | "tenancy.rs");
                if !plain && !row.crates.contains(&dependency.as_str()) && names(&text, dependency)
                {
                    broken.push(format!("{} names {dependency}", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn modules_name_only_the_layers_of_their_row() {
    let mut broken = Vec::new();
    for row in ROWS {
        let own = row.path.trim_end_matches(".rs").replace('/', "::");
        for path in sources(&root().join(row.path)) {
            for named in crate_paths(&production(&path)) {
                let under =
                    |module: &str| named == module || named.starts_with(&format!("{module}::"));
                if !under(&own) && !row.modules.iter().any(|module| under(module)) {
                    broken.push(format!("{} names crate::{named}", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_module_has_a_row_or_sees_everything() {
    let free = [
        "app",
        "cli",
        "testing",
        "lib.rs",
        "main.rs",
        "adapters/mod.rs",
        "transport/mod.rs",
    ];
    for path in sources(&root()) {
        let inner = path
            .strip_prefix(root())
            .expect("below src")
            .to_string_lossy()
            .replace('\\', "/");
        let of = |place: &str| inner == place || inner.starts_with(&format!("{place}/"));
        let known = ROWS.iter().any(|row| of(row.path)) || free.iter().any(|place| of(place));
        assert!(known, "{inner} has no row in tests/architecture.rs");
    }
}

/// Who may do what only one place does.
#[test]
fn singular_places_stay_singular() {
    let rules: &[(&str, &[&str])] = &[
        // S5: a tenant comes from a subject, or from an operator.
        (
            "TenantId::mint",
            &[
                "transport/nats/subjects.rs",
                "cli/context.rs",
                "model/ids.rs",
                "testing",
            ],
        ),
        (
            "TenantId::stored",
            &[
                "adapters/rebuild_statements.rs",
                "adapters/registry_statements.rs",
                "adapters/retention_statements.rs",
                "adapters/tracker_statements.rs",
                "model/ids.rs",
            ],
        ),
        // F3: cutoffs, leases and expiry are the database's clock; ours stamps rows, reports and ticks of our own.
        (
            "Timestamp::now",
            &[
                "adapters/registry_statements.rs",
                "cli/calibrate/outcome.rs",
                "cli/moments.rs",
                "model/time.rs",
                "testing",
                "transport/nats/discovery.rs",
                "transport/nats/feedback.rs",
                "transport/nats/retrieve.rs",
                "transport/nats/schedule.rs",
                "transport/nats/tracking_batch.rs",
            ],
        ),
        // Only one place decides what becomes of a failed job or event (`disposition.rs`); these two carry it out.
        // What is parked has not failed: its turn comes later.
        (
            "AckKind::Nak",
            &[
                "transport/nats/ingest_job.rs",
                "transport/nats/parking.rs",
                "transport/nats/tracking_batch.rs",
            ],
        ),
        (
            "AckKind::Term",
            &[
                "transport/nats/ingest_job.rs",
                "transport/nats/tracking_batch.rs",
            ],
        ),
        // Only the composition root, and commands that measure, list or fetch models, know adapters.
        (
            "adapters::",
            &[
                "app",
                "cli/models.rs",
                "cli/pull.rs",
                "cli/bench_ingest.rs",
                "adapters",
            ],
        ),
        // Markup, plots and edited manifests are the business of one place each.
        ("maud::", &["cli/report"]),
        ("plotters::", &["cli/report"]),
        ("toml_edit::", &["cli/calibrate", "adapters/hub"]),
        // Every instrument stands in one file, those of tracking in one of their own.
        (
            "u64_counter(",
            &["telemetry/metrics.rs", "telemetry/tracking_metrics.rs"],
        ),
        (
            "f64_histogram(",
            &["telemetry/metrics.rs", "telemetry/tracking_metrics.rs"],
        ),
    ];
    let mut broken = Vec::new();
    for path in sources(&root()) {
        let inner = path
            .strip_prefix(root())
            .expect("below src")
            .to_string_lossy()
            .replace('\\', "/");
        let text = production(&path);
        for (pattern, places) in rules {
            let allowed = places
                .iter()
                .any(|place| inner == *place || inner.starts_with(&format!("{place}/")));
            if !allowed && text.contains(pattern) {
                broken.push(format!("{inner} has {pattern}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut broken = Vec::new();
    for path in sources(&root()) {
        let text = fs::read_to_string(&path).expect("a source file");
        if !text.starts_with("//!") {
            broken.push(format!(
                "{} does not begin with what it is for",
                path.display()
            ));
        }
        let lines = production(&path).lines().count();
        if lines > 500 {
            broken.push(format!("{} has {lines} lines", path.display()));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The checks above would prove nothing if they could not fail.
#[test]
fn the_reader_sees_what_it_looks_for() {
    assert!(names("use serde_json::Value;", "serde_json"));
    assert!(!names("use crate::config::Config;", "config"));
    assert!(!names("my_serde::x", "serde"));
    let paths = crate_paths("use crate::wire::v1; crate::error::Result");
    assert!(paths.contains("wire::v1") && paths.contains("error::Result"));
}
