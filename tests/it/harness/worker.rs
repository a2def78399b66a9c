//! The `ragbus` binary as a child.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{PATIENCE, eventually, free_address, get, parts};

/// The program with nothing of this process' own configuration in its environment.
pub fn ragbus(url: &str, data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ragbus"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RAGBUS")) {
        command.env_remove(name);
    }
    command
        .env("RAGBUS__NATS__URL", url)
        .env("RAGBUS__DATA_DIR", data)
        .env("RAGBUS__ONNX__LIBRARY", parts("lib/libonnxruntime.so"))
        .env("RAGBUS__MODELS__DIR", parts("models"))
        .env("RAGBUS__INFERENCE__THREADS", "1")
        .stdin(Stdio::null());
    command
}

/// How a worker is started.
pub struct WorkerSetup {
    command: Command,
    http: SocketAddr,
    log: PathBuf,
}

impl WorkerSetup {
    /// A worker over a folder: data and logs go there.
    pub fn new(url: &str, dir: &Path) -> Self {
        let mut command = ragbus(url, &dir.join("data"));
        let http = free_address();
        command
            .arg("worker")
            .env("RAGBUS__TELEMETRY__HTTP_LISTEN", http.to_string());
        Self {
            command,
            http,
            log: dir.join(format!("worker-{}.log", http.port())),
        }
    }

    pub fn arg(mut self, arg: &str) -> Self {
        self.command.arg(arg);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// At this address instead of a free one.
    pub fn http(mut self, http: SocketAddr) -> Self {
        self.http = http;
        self.env("RAGBUS__TELEMETRY__HTTP_LISTEN", &http.to_string())
    }

    /// Started; whether it gets ready is another matter.
    pub fn spawn(mut self) -> Worker {
        let mut options = File::options();
        let log = options.create(true).append(true).read(true);
        let log = log.open(&self.log).expect("a log");
        let kept = log.try_clone().expect("a log");
        let out = log.try_clone().expect("a log");
        let child = self
            .command
            .stdout(out)
            .stderr(log)
            .spawn()
            .expect("ragbus starts");
        Worker {
            child,
            http: self.http,
            log: kept,
        }
    }

    /// Started and ready.
    pub async fn start(self) -> Worker {
        let mut worker = self.spawn();
        worker.ready().await;
        worker
    }
}

/// A running worker; killed when dropped.
pub struct Worker {
    child: Child,
    http: SocketAddr,
    /// Held open: it can be read when its folder is gone already.
    log: File,
}

impl Worker {
    pub async fn ready(&mut self) {
        let started = Instant::now();
        while self.readiness().await.0 != 200 {
            let gone = self.child.try_wait().expect("a child");
            assert!(
                gone.is_none(),
                "the worker ended with {gone:?}: {}",
                self.log()
            );
            assert!(started.elapsed() < PATIENCE, "not ready: {}", self.log());
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Status and text of `/readyz`; 0 when nobody answers.
    pub async fn readiness(&self) -> (u16, String) {
        get(self.http, "/readyz").await.unwrap_or_default()
    }

    /// `/metrics`.
    pub async fn metrics(&self) -> String {
        get(self.http, "/metrics").await.expect("metrics").1
    }

    /// The sum over all series of a metric; 0 when there is none yet.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.metrics().await;
        let series = text.lines().filter(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        series
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    pub fn http(&self) -> SocketAddr {
        self.http
    }

    pub fn log(&self) -> String {
        let length = self.log.metadata().map_or(0, |meta| meta.len());
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = self.log.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// SIGTERM, without waiting.
    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
    }

    /// How it ended, once it did.
    pub async fn ended(&mut self, patience: Duration) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(
                started.elapsed() < patience,
                "still running: {}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the log says this.
    pub async fn says(&self, text: &str) {
        eventually(text, PATIENCE, || async {
            self.log().contains(text).then_some(())
        })
        .await;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("--- end of the worker's log:");
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}
