//! The NATS server that `ragbus dev` runs as a child.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::error::{Error, ErrorKind, Result};

const START: Duration = Duration::from_secs(10);
const STOP: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// A running child; killed when dropped.
#[derive(Debug)]
pub(super) struct NatsServer {
    child: Child,
    /// Its URL.
    pub url: String,
}

impl NatsServer {
    /// Starts the program on a loopback port (0 = any free one), with its data under `dir`.
    ///
    /// # Errors
    /// `InvalidField` when the program is missing or the port is taken; `DependencyFailed` when it doesn't come up.
    pub(super) async fn start(program: &Path, dir: &Path, port: u16) -> Result<Self> {
        if !program.exists() {
            let problem = format!(
                "names {}, which doesn't exist: run `make setup`",
                program.display()
            );
            return Err(Error::invalid_field("nats.server", problem));
        }
        fs::create_dir_all(dir).map_err(|e| unusable(dir, e))?;
        end_leftover(dir).await;
        let port = free_port(port)?;
        let child = spawned(program, dir, port)?;
        let mut server = Self {
            child,
            url: format!("nats://127.0.0.1:{port}"),
        };
        server.wait_until_up(port, dir).await?;
        Ok(server)
    }

    async fn wait_until_up(&mut self, port: u16, dir: &Path) -> Result<()> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let failed = |why: &str| {
            let message = format!("nats-server {why}: see {}", log_file(dir).display());
            Error::new(ErrorKind::DependencyFailed, message)
        };
        let deadline = tokio::time::Instant::now() + START;
        while tokio::time::Instant::now() < deadline {
            if let Ok(Some(_)) = self.child.try_wait() {
                return Err(failed("ended at once"));
            }
            if tokio::net::TcpStream::connect(address).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(failed("doesn't answer"))
    }

    /// Ends it cleanly.
    pub(super) async fn stop(mut self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = tokio::time::timeout(STOP, self.child.wait()).await;
    }
}

fn unusable(dir: &Path, error: std::io::Error) -> Error {
    Error::invalid_field("data_dir", format!("{} can't be used", dir.display())).caused_by(error)
}

fn log_file(dir: &Path) -> PathBuf {
    dir.join("nats-server.log")
}

fn pid_file(dir: &Path) -> PathBuf {
    dir.join("nats-server.pid")
}

fn spawned(program: &Path, dir: &Path, port: u16) -> Result<Child> {
    let log = fs::File::create(log_file(dir)).map_err(|e| unusable(dir, e))?;
    let errors = log.try_clone().map_err(|e| unusable(dir, e))?;
    Command::new(program)
        .args([
            "--addr",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--jetstream",
            "--store_dir",
        ])
        .arg(dir)
        .arg("--pid")
        .arg(pid_file(dir))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        // Ctrl-C reaches us first: the worker still needs the server to drain.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| Error::dependency("nats-server can't be started", e))
}

/// Ends a server that a killed `dev` left behind: ours only if it still runs over the same folder.
async fn end_leftover(dir: &Path) {
    let text = fs::read_to_string(pid_file(dir)).unwrap_or_default();
    let Some(pid) = text.trim().parse::<i32>().ok().and_then(Pid::from_raw) else {
        return;
    };
    let command_line = PathBuf::from(format!("/proc/{}/cmdline", text.trim()));
    let ours = || {
        let folder = dir.as_os_str().as_encoded_bytes();
        fs::read(&command_line).is_ok_and(|line| {
            line.split(|byte| *byte == 0)
                .any(|argument| argument == folder)
        })
    };
    if !ours() {
        return;
    }
    let _ = kill_process(pid, Signal::TERM);
    let deadline = tokio::time::Instant::now() + STOP;
    while ours() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(POLL).await;
    }
}

fn free_port(port: u16) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|e| {
        let problem = format!(
            "has port {port}, which is taken: stop what uses it, or choose another with --port"
        );
        Error::invalid_field("nats.url", problem).caused_by(e)
    })?;
    let address = listener.local_addr();
    address
        .map(|a| a.port())
        .map_err(|e| Error::internal("no free port").caused_by(e))
}
