//! The cluster profile's files, as far as they can be checked without running containers: what they name exists, secrets
//! come from outside, versions are pinned, and the configuration is one that `ragbus check-config` takes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Lines that say something.
fn said(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim_end);
    lines.filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty())
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// One level of a YAML file that keeps to two spaces and one item a line: what stands under each key at this indentation.
fn below<'a>(lines: &[&'a str], level: usize) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut key = None;
    for line in lines {
        if indent(line) == level {
            let (name, rest) = line.trim().split_once(':').unwrap_or((line.trim(), ""));
            assert!(
                found.insert(name, Vec::new()).is_none(),
                "{name} stands there twice"
            );
            key = Some(name);
            if !rest.trim().is_empty() {
                found.entry(name).or_default().push(rest.trim());
            }
        } else if let Some(key) = key {
            found.entry(key).or_default().push(line);
        }
    }
    found
}

struct Compose {
    text: String,
}

impl Compose {
    fn read() -> Self {
        let text = read("docker-compose.yml");
        assert!(!text.contains('\t') && said(&text).all(|line| indent(line).is_multiple_of(2)));
        Self { text }
    }

    fn top(&self) -> BTreeMap<&str, Vec<&str>> {
        below(&said(&self.text).collect::<Vec<_>>(), 0)
    }

    /// Each service's own keys; what it shares with others through `<<` is under its anchor's name.
    fn services(&self) -> BTreeMap<&str, BTreeMap<&str, Vec<&str>>> {
        let services = below(&self.top()["services"], 2);
        services
            .into_iter()
            .map(|(name, lines)| (name, below(&lines, 4)))
            .collect()
    }

    fn environment(&self, service: &str) -> BTreeMap<String, String> {
        let services = self.services();
        let lines = services[service].get("environment").cloned();
        let pairs = lines.unwrap_or_default().into_iter().map(|line| {
            let (name, value) = line.trim().split_once(": ").expect("NAME: value");
            (name.to_owned(), value.to_owned())
        });
        pairs.collect()
    }
}

/// `${NAME:?…}` of a text; any other form of `$` is a fault.
fn variables(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices('$') {
        let rest = &text[at..];
        let name = rest.strip_prefix("${").and_then(|r| r.split_once(":?"));
        let (name, _) = name.unwrap_or_else(|| panic!("not ${{NAME:?…}}: {rest:.40}"));
        names.insert(name.to_owned());
    }
    names
}

/// With something in the place of every secret.
fn filled(value: &str) -> String {
    let mut text = value.to_owned();
    while let Some(start) = text.find("${") {
        let end = start + text[start..].find('}').expect("closed");
        text.replace_range(start..=end, "filled");
    }
    text
}

fn check_config(environment: &BTreeMap<String, String>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ragbus"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RAGBUS")) {
        command.env_remove(name);
    }
    for (name, value) in environment {
        command.env(name, filled(value));
    }
    let file = root().join("deploy/ragbus.toml");
    let checked = command.arg("check-config").arg("--config").arg(file);
    checked.output().expect("runs")
}

/// `NAME=value` of the image.
fn image_environment() -> BTreeMap<String, String> {
    let dockerfile = read("deploy/Dockerfile");
    let pairs = said(&dockerfile).filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn every_service_that_goes_on_has_a_health_check_and_waits_for_healthy_ones() {
    let compose = Compose::read();
    let services = compose.services();
    let names: Vec<&str> = services.keys().copied().collect();
    assert_eq!(names, ["nats", "postgres", "qdrant", "setup", "worker"]);
    for (name, keys) in &services {
        let once = keys["restart"] == ["\"no\""];
        assert_eq!(once, *name == "setup", "{name}: only setup runs once");
        assert_eq!(once, !keys.contains_key("healthcheck"), "{name}");
        for line in keys.get("depends_on").into_iter().flatten() {
            let line = line.trim();
            if let Some(other) = line.strip_suffix(':') {
                assert!(services.contains_key(other), "{name} waits for {other}");
            } else {
                let healthy = line == "condition: service_healthy"
                    || line == "condition: service_completed_successfully";
                assert!(healthy, "{name}: {line}");
            }
        }
    }
    assert_eq!(services["worker"]["deploy"], ["      replicas: 2"]);
}

#[test]
fn versions_are_pinned() {
    let compose = Compose::read();
    let dockerfile = read("deploy/Dockerfile");
    let used = said(&compose.text).filter_map(|line| line.trim().strip_prefix("image: "));
    let built = said(&dockerfile).filter_map(|line| line.strip_prefix("FROM "));
    let images: Vec<&str> = used
        .chain(built)
        .map(|image| image.split(' ').next().unwrap_or_default())
        .collect();
    assert_eq!(images.len(), 7, "{images:?}");
    for image in &images {
        let tag = image.rsplit_once(':').map_or("", |(_, tag)| tag);
        let number = tag
            .trim_start_matches('v')
            .split('-')
            .next()
            .unwrap_or_default();
        let parts: Vec<&str> = number.split('.').collect();
        let pinned = parts.len() >= 2 && parts.iter().all(|part| part.parse::<u32>().is_ok());
        assert!(pinned, "{image} is not pinned");
    }
    for wanted in ["nats:2.15", "qdrant/qdrant:v1.19", "postgres:17"] {
        assert!(
            images.iter().any(|image| image.starts_with(wanted)),
            "{wanted}"
        );
    }
    let own = format!("ragbus:{}", env!("CARGO_PKG_VERSION"));
    assert!(images.contains(&own.as_str()), "{images:?} without {own}");
    let pins = read("scripts/pins.json");
    assert!(
        pins.contains("\"version\": \"2.15"),
        "the tests' own server"
    );
}

#[test]
fn every_path_exists_and_every_volume_is_named() {
    let compose = Compose::read();
    let top = compose.top();
    let named = below(&top["volumes"], 2);
    let mut mounted = BTreeSet::new();
    for (name, keys) in compose.services() {
        for line in keys.get("volumes").into_iter().flatten() {
            let mount = line.trim().strip_prefix("- ").expect("an item");
            let source = mount.split(':').next().unwrap_or_default();
            if source.starts_with("./") {
                assert!(root().join(source).is_file(), "{name}: {source}");
                assert!(mount.ends_with(":ro"), "{name}: {mount}");
            } else {
                assert!(named.contains_key(source), "{name}: {source}");
                mounted.insert(source);
            }
        }
    }
    assert_eq!(mounted.len(), named.len(), "a volume that nobody uses");
    assert!(compose.text.contains("dockerfile: deploy/Dockerfile"));
    for line in said(&read("deploy/Dockerfile")) {
        if let Some(copied) = line.strip_prefix("COPY ").filter(|c| !c.starts_with("--")) {
            let source = copied.split(' ').next().unwrap_or_default();
            assert!(root().join(source).exists(), "{line}");
        }
    }
    let server = read("deploy/nats/nats.conf");
    let included = said(&server).filter_map(|line| line.strip_prefix("include "));
    for file in included {
        let file = file.trim_matches('"');
        assert!(
            compose
                .text
                .contains(&format!("./deploy/nats/{file}:/etc/nats/{file}:ro"))
        );
    }
    assert!(said(&server).any(|line| line.trim() == "store_dir: \"/var/lib/nats\""));
    assert!(compose.text.contains("nats-data:/var/lib/nats"));
}

#[test]
fn secrets_come_from_outside_and_are_documented() {
    let compose = Compose::read();
    let used = variables(&said(&compose.text).collect::<Vec<_>>().join("\n"));
    let example = read("deploy/env.example");
    let documented: BTreeSet<String> = said(&example)
        .map(|line| {
            let (name, value) = line.split_once('=').expect("NAME=");
            assert_eq!(value, "", "{name} has a value");
            name.to_owned()
        })
        .collect();
    assert_eq!(used, documented);
    assert!(said(&read(".gitignore")).any(|line| line == ".env"));
    assert!(said(&read(".dockerignore")).any(|line| line == ".env"));
    for service in compose.services().keys() {
        for (name, value) in compose.environment(service) {
            let secret = name.contains("PASSWORD") || name.contains("KEY") || value.contains('@');
            assert!(!secret || value.contains("${"), "{service}: {name}");
        }
    }
    let given = compose.environment("nats");
    let rights = read("deploy/nats/permissions.conf");
    let asked = rights.split("password: $").skip(1);
    let asked: BTreeSet<&str> = asked
        .filter_map(|rest| rest.split([',', ' ']).next())
        .collect();
    assert!(asked.len() >= 3, "{asked:?}");
    for name in asked {
        assert!(given.contains_key(name), "nats-server gets no {name}");
    }
}

#[test]
fn the_configuration_is_one_that_ragbus_takes() {
    let compose = Compose::read();
    for service in ["setup", "worker"] {
        let mut environment = image_environment();
        environment.extend(compose.environment(service));
        let known = environment.keys().all(|name| name.starts_with("RAGBUS__"));
        assert!(known, "{environment:?}");
        let output = check_config(&environment);
        let problem = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{service}: {problem}");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.contains("_INBOX.{tenant}."), "{printed}");
        assert!(
            !printed.contains("filled"),
            "a secret is printed: {printed}"
        );
    }
    assert!(said(&read("deploy/ragbus.toml")).any(|line| line == "kind = \"qdrant\""));
    // The check could not fail otherwise.
    let unknown = BTreeMap::from([("RAGBUS__STORE__QDRANT__APIKEY".to_owned(), "x".to_owned())]);
    let refused = check_config(&unknown);
    let problem = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(problem.contains("apikey"), "{problem}");
}

#[test]
fn the_image_runs_as_nobody_special_with_its_parts_in_place() {
    let dockerfile = read("deploy/Dockerfile");
    let lines: Vec<&str> = said(&dockerfile).collect();
    assert!(lines.contains(&"RUN cargo build --release --locked"));
    let at = |start: &str| lines.iter().position(|line| line.starts_with(start));
    let user = at("USER ").expect("a user");
    assert!(!matches!(lines[user], "USER root" | "USER 0"));
    assert!(
        user > at("COPY --from=build ").expect("the program")
            && user < at("ENTRYPOINT").expect("it")
    );
    let last = lines
        .iter()
        .rposition(|line| line.starts_with("FROM "))
        .expect("a stage");
    assert!(lines[last].starts_with("FROM debian:") && user > last);
    for script in ["--only onnx", "--only models"] {
        assert!(dockerfile.contains(&format!("scripts/setup.py --root /parts {script}")));
    }
    for (name, folder) in [
        ("RAGBUS__ONNX__LIBRARY", "/opt/ragbus/lib"),
        ("RAGBUS__MODELS__DIR", "/opt/ragbus/models"),
    ] {
        let part = folder.rsplit('/').next().unwrap_or_default();
        assert!(lines.contains(&format!("COPY --from=parts /parts/{part} {folder}").as_str()));
        assert!(image_environment()[name].starts_with(folder), "{name}");
    }
}

/// The checks above would prove nothing if the readers could not see.
#[test]
fn the_readers_see_what_they_look_for() {
    let text = "a:\n  b: 1\n  c:\n    - x\n# no\nd:\n";
    let top = below(&said(text).collect::<Vec<_>>(), 0);
    assert_eq!(top.keys().copied().collect::<Vec<_>>(), ["a", "d"]);
    let inner = below(&top["a"], 2);
    assert_eq!(
        (inner["b"].as_slice(), inner["c"].as_slice()),
        (&["1"][..], &["    - x"][..])
    );
    assert_eq!(filled("x://${A:?b}@c/${D:?}"), "x://filled@c/filled");
    assert_eq!(variables("${A:?b} ${C:?}").len(), 2);
    assert!(std::panic::catch_unwind(|| variables("${A}")).is_err());
    assert!(std::panic::catch_unwind(|| variables("$A")).is_err());
}
