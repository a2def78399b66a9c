//! A PostgreSQL server of a test's own, in a temporary folder, on a free port; gone with the test.
//!
//! PostgreSQL refuses to run as root: then it runs as the user that its package brings.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const USER: &str = "postgres";
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub struct PostgresServer {
    child: Child,
    bin: PathBuf,
    port: u16,
    dir: tempfile::TempDir,
}

impl PostgresServer {
    /// Starts and waits until it answers.
    pub fn start() -> Self {
        let bin = programs();
        let dir = tempfile::Builder::new()
            .prefix("ragbus-pg")
            .tempdir()
            .expect("a folder");
        give_away(dir.path());
        let data = dir.path().join("data");
        let made = as_user(&bin.join("initdb"))
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=ragbus",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(&data)
            .output()
            .expect("initdb runs");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = free_port();
        let child = serve(&bin, dir.path(), port);
        let mut server = Self {
            child,
            bin,
            port,
            dir,
        };
        server.wait_ready();
        server
    }

    /// What is configured as `sql.url`.
    pub fn url(&self) -> String {
        format!("postgres://ragbus@127.0.0.1:{}/postgres", self.port)
    }

    /// `kill -9` of the server and all its processes; the data folder stays.
    pub fn kill(&mut self) {
        // The children after their leader: it would start new ones. One that it started meanwhile notices and ends.
        let leader = self.child.id();
        let children = children(leader);
        self.child.kill().expect("killed");
        for child in children.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
            let _ = kill_process(child, Signal::KILL);
        }
        self.child.wait().expect("gone");
    }

    /// Started again over the same data and port.
    pub fn restart(&mut self) {
        let _ = fs::remove_file(self.dir.path().join("data/postmaster.pid"));
        let started = Instant::now();
        loop {
            self.child = serve(&self.bin, self.dir.path(), self.port);
            if self.answers_within(Duration::from_secs(10)) {
                return;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "the server does not come back"
            );
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn wait_ready(&mut self) {
        assert!(
            self.answers_within(PATIENCE),
            "the server does not get ready: {}",
            self.log()
        );
    }

    fn answers_within(&mut self, patience: Duration) -> bool {
        let started = Instant::now();
        while started.elapsed() < patience {
            let ready = Command::new(self.bin.join("pg_isready"))
                .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
                .status();
            if ready.is_ok_and(|status| status.success()) {
                return true;
            }
            if self.child.try_wait().expect("a child").is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // SIGINT is the server's fast shutdown; a leader killed at once would leave shared memory behind.
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::INT);
        }
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes that a process started, as far as the system tells.
fn children(leader: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{leader}/task/{leader}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

fn serve(bin: &Path, dir: &Path, port: u16) -> Child {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(dir.join("log"))
        .expect("a log");
    as_user(&bin.join("postgres"))
        .arg("-D")
        .arg(dir.join("data"))
        .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
        // Durability as in service: what is committed survives `kill -9`, and only the machine's crash is not tried.
        .args([
            "-c",
            "fsync=off",
            "-c",
            "shared_buffers=16MB",
            "-c",
            "unix_socket_directories=",
        ])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("postgres starts")
}

/// The newest version's folder, or the one on the PATH.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let number = |path: &Path| -> u32 {
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        name.parse().unwrap_or(0)
    };
    let newest = versions.map(|e| e.path()).max_by_key(|path| number(path));
    let newest = newest.map(|path| path.join("bin"));
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&on_path).collect::<Vec<_>>();
    newest
        .into_iter()
        .chain(on_path)
        .find(|dir| dir.join("initdb").exists() && dir.join("postgres").exists())
        .expect("PostgreSQL's server programs: run `python3 scripts/setup.py --only postgres`")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The program as somebody it accepts.
fn as_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"])
        .arg(program);
    command.current_dir("/");
    command
}

/// Its user may write into the folder.
fn give_away(dir: &Path) {
    if is_root() {
        let owned = Command::new("chown")
            .arg(format!("{USER}:{USER}"))
            .arg(dir)
            .status();
        assert!(
            owned.expect("chown runs").success(),
            "user {USER} is missing"
        );
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("permissions");
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}
