//! What tracked retrievals add up to, through a real service: statistics, audit, judgements; and nobody sees another's.

mod commands;
mod load;
mod rows;
mod views;

use std::sync::Arc;

use ragbus::adapters::postgres::PostgresRegistry;
use ragbus::adapters::sqlite::SqliteRegistry;
use ragbus::testing::contract::tracker::Tracked;

use crate::harness::*;
use crate::postgres_server::PostgresServer;
use rows::{fill, fill_with_large_ones};
use views::{
    every_document_is_found, every_question_is_found, every_view_counts, nobody_sees_the_others,
    wrong_questions_are_refused,
};

/// More than a page of an export.
pub const LARGE: i64 = 130;

/// A service whose tracker holds retrievals of two tenants, and whose corpora `c` hold documents of both.
pub struct Tracking {
    service: Service,
    t2: Caller,
    _postgres: Option<PostgresServer>,
}

impl Tracking {
    async fn sqlite() -> (Self, Tracked) {
        let nats = Nats::start().await;
        let dir = tempfile::tempdir().expect("a folder");
        let data = dir.path().join("data");
        std::fs::create_dir_all(&data).expect("made");
        let registry = SqliteRegistry::open(&data.join("ragbus.db")).await;
        let tracker: Tracked = Arc::new(registry.expect("opened").tracker());
        fill(&tracker).await;
        fill_with_large_ones(&tracker, LARGE).await;
        (Self::over(nats, dir, None).await, tracker)
    }

    async fn postgres() -> (Self, Tracked) {
        let server = tokio::task::spawn_blocking(PostgresServer::start);
        let server = server.await.expect("a server");
        let registry = PostgresRegistry::open(&server.url(), 4).await;
        let tracker: Tracked = Arc::new(registry.expect("opened").tracker());
        fill(&tracker).await;
        fill_with_large_ones(&tracker, LARGE).await;
        let dir = tempfile::tempdir().expect("a folder");
        let service = Self::over(Nats::start().await, dir, Some(server)).await;
        (service, tracker)
    }

    async fn over(nats: Nats, dir: tempfile::TempDir, postgres: Option<PostgresServer>) -> Self {
        let mut setup = WorkerSetup::new(&nats.url(), dir.path())
            .arg("--setup")
            .env(
                "RAGBUS__NATS__REPLY_PREFIXES",
                "_INBOX.{tenant}.,_INBOX_OPS.",
            );
        if let Some(server) = &postgres {
            setup = setup.env("RAGBUS__SQL__URL", &server.url());
        }
        let worker = setup.start().await;
        let (t1, t2) = (Caller::of(&nats, "t1").await, Caller::of(&nats, "t2").await);
        for (id, text) in [
            ("owl", "Owls hunt mice at night and fly without a sound."),
            (
                "badger",
                "Badgers dig setts and live underground in families.",
            ),
            ("never", "A ship floats because it displaces water."),
        ] {
            t1.indexed(&put("c", id, text)).await;
        }
        t2.indexed(&put("c", "lonely", "Nobody asks for this."))
            .await;
        let service = Service {
            worker,
            nats,
            t1,
            dir,
        };
        Self {
            service,
            t2,
            _postgres: postgres,
        }
    }

    /// A command of the program, that knows where the service is.
    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = ragbus(
            &self.service.nats.url(),
            &self.service.dir.path().join("other"),
        );
        command
            .env(
                "RAGBUS__NATS__REPLY_PREFIXES",
                "_INBOX.{tenant}.,_INBOX_OPS.",
            )
            .args(arguments);
        command
    }
}

async fn answers(tracking: &Tracking) {
    let t1 = &tracking.service.t1;
    every_view_counts(t1).await;
    every_document_is_found(t1).await;
    every_question_is_found(t1).await;
    nobody_sees_the_others(tracking).await;
    wrong_questions_are_refused(t1).await;
    let log = tracking.service.worker.log();
    for text in ["birds", "bread", "secret of t2", "script"] {
        assert!(!log.contains(text), "S6: {text} is in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_statistics_are_the_tenants_own_over_sqlite() {
    answers(&Tracking::sqlite().await.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_statistics_are_the_tenants_own_over_postgres() {
    answers(&Tracking::postgres().await.0).await;
}
