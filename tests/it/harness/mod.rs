//! A real `nats-server`, the real `ragbus` binary and a caller that knows only the wire.

mod caller;
mod http;
mod nats;
mod worker;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub use caller::{Answer, Caller, JSON, headers, name};
pub use http::get;
pub use nats::Nats;
pub use worker::{Worker, WorkerSetup, ragbus};

/// What any single wait may take on a busy machine of two cores.
pub const PATIENCE: Duration = Duration::from_secs(40);
/// Longer than the server's patience with an unacknowledged job (30 s).
pub const REDELIVERY: Duration = Duration::from_secs(90);

/// A server with a worker and a caller of tenant `t1`.
pub struct Service {
    pub worker: Worker,
    pub nats: Nats,
    pub t1: Caller,
    pub dir: tempfile::TempDir,
}

impl Service {
    /// A worker that set NATS up itself.
    pub async fn start() -> Self {
        Self::with(|setup| setup).await
    }

    /// The same with more environment.
    pub async fn with(change: impl FnOnce(WorkerSetup) -> WorkerSetup) -> Self {
        let nats = Nats::start().await;
        let dir = tempfile::tempdir().expect("a folder");
        let setup = WorkerSetup::new(&nats.url(), dir.path()).arg("--setup");
        let worker = change(setup).start().await;
        let t1 = Caller::of(&nats, "t1").await;
        Self {
            worker,
            nats,
            t1,
            dir,
        }
    }
}

/// Polls until there is something; fails with `what` when there is nothing in time.
pub async fn eventually<T, F>(what: &str, patience: Duration, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            started.elapsed() < patience,
            "not within {patience:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Native parts and models: what `make setup` brings.
pub fn parts(inside: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(".ragbus")
        .join(inside);
    assert!(
        path.exists(),
        "{} is missing: run `make setup`",
        path.display()
    );
    path
}

/// A free port at a loopback address of this process alone: tests beside this one can't take it in between.
pub fn free_address() -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, high.wrapping_add(1) & 0x7f, middle, low.max(1));
    let listener = TcpListener::bind((host, 0)).expect("a free port");
    listener.local_addr().expect("bound")
}

/// A job that puts one text.
pub fn put(corpus: &str, document: &str, text: &str) -> Value {
    json!({ "corpus": corpus, "putDocument": { "documentId": document, "text": text } })
}

/// A job that puts these chunks.
pub fn put_chunks(corpus: &str, document: &str, contents: &[String]) -> Value {
    let chunks: Vec<Value> = contents.iter().map(|c| json!({ "content": c })).collect();
    json!({ "corpus": corpus, "putChunks": { "documentId": document, "chunks": chunks } })
}
