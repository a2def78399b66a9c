//! `nats-server` as a child.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};

use super::{PATIENCE, eventually, free_address, parts};

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
        let log = File::create(dir.path().join("nats.log")).expect("a log");
        let mut command = Command::new(parts("bin/nats-server"));
        command
            .args([
                "-a",
                &address.ip().to_string(),
                "-p",
                &address.port().to_string(),
            ])
            .arg("-js")
            .arg("-sd")
            .arg(dir.path().join("js"))
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
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
        let log = nats.dir.path().join("nats.log");
        eventually("nats-server answers", PATIENCE, || async {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(!said.contains("[FTL]"), "nats-server: {said}");
            said.contains("Server is ready").then_some(())
        })
        .await;
        nats
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
        let options = match &self.user {
            Some((user, password)) => self.user(user, password),
            None => ConnectOptions::new(),
        };
        options.connect(self.address()).await.expect("connects")
    }

    pub async fn jetstream(&self) -> Context {
        jetstream::new(self.client().await)
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

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
