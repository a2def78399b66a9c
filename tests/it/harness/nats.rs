//! `nats-server` as a child.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};

use super::{PATIENCE, eventually, free_address, parts, ragbus};

/// A server with JetStream in a folder of its own; killed when dropped.
pub struct Nats {
    child: Child,
    address: SocketAddr,
    dir: tempfile::TempDir,
    user: Option<(String, String)>,
}

impl Nats {
    /// Without users: anyone may do anything.
    pub async fn start() -> Self {
        Self::spawned(None, &[], None).await
    }

    /// With a configuration file; `user` is who [`Nats::client`] connects as.
    pub async fn configured(file: &Path, env: &[(&str, &str)], user: (&str, &str)) -> Self {
        let user = (user.0.to_owned(), user.1.to_owned());
        Self::spawned(Some(file.to_owned()), env, Some(user)).await
    }

    async fn spawned(
        config: Option<PathBuf>,
        env: &[(&str, &str)],
        user: Option<(String, String)>,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let address = free_address();
        let mut command = server(address, dir.path());
        command.envs(env.iter().copied());
        if let Some(file) = &config {
            command.arg("-c").arg(file);
        }
        let child = command.spawn().expect("nats-server starts");
        let nats = Self {
            child,
            address,
            dir,
            user,
        };
        nats.ready().await;
        nats
    }

    async fn ready(&self) {
        let log = self.dir.path().join("nats.log");
        eventually("nats-server answers", PATIENCE, || async {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(!said.contains("[FTL]"), "nats-server: {said}");
            said.contains("Server is ready").then_some(())
        })
        .await;
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// The same server (one without a configuration file) again, after a kill.
    pub async fn restart(&mut self) {
        let mut command = server(self.address, self.dir.path());
        self.child = command.spawn().expect("nats-server starts");
        self.ready().await;
    }

    pub fn url(&self) -> String {
        match &self.user {
            Some((user, password)) => self.url_of(user, password),
            None => self.address(),
        }
    }

    pub fn url_of(&self, user: &str, password: &str) -> String {
        format!("nats://{user}:{password}@{}", self.address)
    }

    pub fn address(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// The client library doesn't read users out of URLs.
    pub fn user(&self, user: &str, password: &str) -> ConnectOptions {
        ConnectOptions::new().user_and_password(user.to_owned(), password.to_owned())
    }

    /// A client with the server's widest rights.
    pub async fn client(&self) -> Client {
        self.widest()
            .connect(self.address())
            .await
            .expect("connects")
    }

    /// The same with an inbox that depends on no tenant: where prefixes are strict, `$SRV` is answered only there.
    pub async fn operator(&self) -> Client {
        let options = self.widest().custom_inbox_prefix("_INBOX_OPS");
        options.connect(self.address()).await.expect("connects")
    }

    fn widest(&self) -> ConnectOptions {
        match &self.user {
            Some((user, password)) => self.user(user, password),
            None => ConnectOptions::new(),
        }
    }

    pub async fn jetstream(&self) -> Context {
        jetstream::new(self.client().await)
    }

    /// Runs `ragbus setup` as the user with the widest rights.
    pub fn set_up(&self, data: &Path) {
        let output = ragbus(&self.url(), data)
            .arg("setup")
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }

    /// How many messages a stream holds.
    pub async fn waiting(&self, stream: &str) -> u64 {
        let stream = self
            .jetstream()
            .await
            .get_stream(stream)
            .await
            .expect("the stream");
        stream.cached_info().state.messages
    }

    /// Bodies and headers of all messages of a stream, oldest first.
    pub async fn messages(&self, stream: &str) -> Vec<jetstream::message::StreamMessage> {
        let stream = self
            .jetstream()
            .await
            .get_stream(stream)
            .await
            .expect("the stream");
        let state = stream.cached_info().state.clone();
        let mut messages = Vec::new();
        for sequence in state.first_sequence..=state.last_sequence {
            if let Ok(message) = stream.get_raw_message(sequence).await {
                messages.push(message);
            }
        }
        messages
    }
}

fn server(address: SocketAddr, dir: &Path) -> Command {
    let log = File::create(dir.join("nats.log")).expect("a log");
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = Command::new(parts("bin/nats-server"));
    command
        .args(["-a", &host, "-p", &port, "-js", "-sd"])
        .arg(dir.join("js"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
