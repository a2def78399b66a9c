//! `ragbus models pull` against a local server with a hub's layout, serving a real cross-encoder with random weights.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::*;
use crate::hub_server::{COMMIT, HubServer, Kept};

mod refusals;
mod repositories;

const REPOSITORY: &str = "cross-encoder/ms-marco-MiniLM-L6-v2";
pub(super) const KNOWN: &str = "ms-marco-MiniLM-L-6-v2";
pub(super) const GRAPH: &str = "onnx/model.onnx";
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// `git hash-object` of the fixture's tokenizer.json.
pub(super) const TOKENIZER_GIT_ID: &str = "0e71f15b0990d50d6d9a2f9b6877573173955f27";

pub(super) fn fixture(file: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny-cross-encoder");
    dir.join(file)
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) async fn hub() -> HubServer {
    let graph = std::fs::read(fixture("model.onnx")).expect("the fixture");
    let tokenizer = std::fs::read(fixture("tokenizer.json")).expect("the fixture");
    let files = vec![
        Kept {
            path: GRAPH,
            etag: sha256(&graph),
            bytes: graph,
            fault: None,
        },
        Kept {
            path: TOKENIZER,
            etag: TOKENIZER_GIT_ID.to_owned(),
            bytes: tokenizer,
            fault: None,
        },
    ];
    HubServer::start(REPOSITORY, files).await
}

/// A machine of its own: a models' folder, and a home in which another program left a token.
pub(super) struct Machine {
    pub(super) dir: tempfile::TempDir,
    endpoint: String,
}

impl Machine {
    pub(super) fn new(endpoint: String) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = dir.path().join("home/.cache/huggingface");
        std::fs::create_dir_all(&cache).expect("made");
        std::fs::write(cache.join("token"), "not-yours").expect("written");
        Self { dir, endpoint }
    }

    pub(super) fn models(&self) -> PathBuf {
        self.dir.path().join("models")
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = ragbus("nats://127.0.0.1:1", self.dir.path());
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(name);
        }
        command
            .env("RAGBUS__MODELS__DIR", self.models())
            .env("RAGBUS__MODELS__HUB_ENDPOINT", &self.endpoint)
            .env("HOME", self.dir.path().join("home"))
            .args(args);
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> (i32, String, String) {
        ended(&mut self.command(args))
    }

    pub(super) fn pull(&self, args: &[&str]) -> (i32, String, String) {
        self.run(&[&["models", "pull", KNOWN, "--revision", "main"], args].concat())
    }

    /// What is in the models' folder, and in the one of the model.
    pub(super) fn files(&self) -> (Vec<String>, Vec<String>) {
        (names(&self.models()), names(&self.models().join(KNOWN)))
    }

    pub(super) fn recipe(&self, id: &str, repository: &str) -> String {
        let text = std::fs::read_to_string(fixture("model.toml")).expect("the fixture");
        let text = text.replace("\"tiny-cross-encoder\"", &format!("{id:?}"));
        let hub = format!(
            "\n[hub]\nrepository = {repository:?}\nrevision = \"main\"\ngraph = {GRAPH:?}\ntokenizer = {TOKENIZER:?}\n"
        );
        let path = self.dir.path().join("recipe.toml");
        std::fs::write(&path, text + &hub).expect("written");
        path.to_string_lossy().into_owned()
    }
}

pub(super) fn ended(command: &mut Command) -> (i32, String, String) {
    let output = command.output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    (code, text(&output.stdout), text(&output.stderr))
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

pub(super) fn all_in(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_model_is_pulled_checked_and_scores_a_pair() {
    let hub = hub().await;
    let machine = Machine::new(hub.url());
    let (code, out, err) = machine.pull(&[]);
    assert_eq!(code, 0, "{out}{err}");
    all_in(
        &out,
        &[
            "licence  Apache-2.0",
            COMMIT,
            "0.1 MB",
            "checked  model.onnx sha256",
        ],
    );
    all_in(
        &out,
        &[
            "set models.cross_encoder = \"ms-marco-MiniLM-L-6-v2\"",
            "ragbus calibrate",
        ],
    );
    let files = ["model.onnx", "model.sha256", "model.toml", "tokenizer.json"];
    let (beside, inside) = machine.files();
    assert_eq!(
        (beside, inside),
        (vec![KNOWN.to_owned()], files.map(str::to_owned).to_vec())
    );
    assert_eq!(
        names(&machine.dir.path().join("home/.cache/huggingface")),
        ["token"]
    );
    for (uri, headers) in hub.asked() {
        assert!(!headers.contains_key("authorization"), "{uri}");
    }
    for id in ["minilm-l6-v2", "splade-tiny"] {
        let place = machine.models().join(id);
        std::os::unix::fs::symlink(parts("models").join(id), place).expect("linked");
    }
    let mut verify = machine.command(&["models", "verify"]);
    let (code, out, err) = ended(verify.env("RAGBUS__MODELS__CROSS_ENCODER", KNOWN));
    assert_eq!((code, out.matches(": ok").count()), (0, 3), "{out}{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intact_model_needs_no_hub() {
    let hub = hub().await;
    let machine = Machine::new(hub.url());
    assert_eq!(machine.pull(&[]).0, 0);
    let asked = hub.asked().len();
    let (code, out, err) = machine.pull(&["--endpoint", "http://127.0.0.1:1"]);
    assert_eq!(
        (code, out.contains("there already, intact")),
        (0, true),
        "{out}{err}"
    );
    assert_eq!(
        machine
            .run(&["models", "pull", KNOWN, "--revision", COMMIT])
            .0,
        0
    );
    let (code, _, err) = machine.run(&["models", "pull", KNOWN]);
    assert_eq!(
        (code, err.contains("with other checksums; --force")),
        (2, true),
        "{err}"
    );
    let (code, _, err) = machine.run(&["models", "pull", KNOWN, "--revision", "v2"]);
    assert_eq!(
        (code, err.contains("another revision; --force")),
        (2, true),
        "{err}"
    );
    assert_eq!(hub.asked().len(), asked, "nobody asked the hub");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_model_is_noticed_and_force_repairs_it() {
    let hub = hub().await;
    let machine = Machine::new(hub.url());
    assert_eq!(machine.pull(&[]).0, 0);
    let graph = machine.models().join(KNOWN).join("model.onnx");
    let whole = std::fs::read(&graph).expect("pulled");
    std::fs::write(&graph, &whole[1..]).expect("written");
    let changed = [
        "changed model",
        "model.onnx has sha256",
        "model.sha256 says",
    ];
    let (code, out, _) = machine.run(&["models", "list", "--json"]);
    assert_eq!(code, 0);
    all_in(&out, &changed);
    let mut verify = machine.command(&["models", "verify"]);
    let (code, _, err) = ended(verify.env("RAGBUS__MODELS__DENSE", KNOWN));
    assert_eq!(code, 2);
    all_in(&err, &changed);
    let (code, _, err) = machine.pull(&[]);
    assert_eq!(code, 2);
    all_in(&err, &changed);
    let (code, out, err) = machine.pull(&["--force"]);
    assert_eq!(
        (code, std::fs::read(&graph).expect("pulled") == whole),
        (0, true),
        "{out}{err}"
    );
    assert_eq!(machine.files().0, [KNOWN]);
}
