//! The cluster profile: several workers over one NATS, one Qdrant and one Postgres.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::*;
use crate::postgres_server::PostgresServer;
use crate::qdrant_server::QdrantServer;

/// What the workers share.
pub struct Cluster {
    pub nats: Nats,
    pub qdrant: QdrantServer,
    pub postgres: PostgresServer,
    dir: tempfile::TempDir,
}

impl Cluster {
    pub async fn start() -> Self {
        let postgres = tokio::task::spawn_blocking(PostgresServer::start);
        Self {
            nats: Nats::start().await,
            qdrant: QdrantServer::start_alone(),
            postgres: postgres.await.expect("a server"),
            dir: tempfile::tempdir().expect("a folder"),
        }
    }

    /// A worker with a folder of its own, and nothing in it.
    pub fn worker(&self, name: &str) -> WorkerSetup {
        let dir = self.dir.path().join(name);
        std::fs::create_dir_all(&dir).expect("a folder");
        WorkerSetup::new(&self.nats.url(), &dir)
            .env("RAGBUS__STORE__KIND", "qdrant")
            .env("RAGBUS__STORE__QDRANT__URL", &self.qdrant.url())
            .env("RAGBUS__SQL__URL", &self.postgres.url())
            .arg("--setup")
    }

    async fn workers(&self, count: usize) -> Vec<Worker> {
        let mut workers = Vec::new();
        for number in 0..count {
            workers.push(self.worker(&format!("w{number}")).start().await);
        }
        workers
    }

    pub fn verify(&self, tenant: &str, corpus: &str) -> Value {
        let out = ragbus(&self.nats.url(), Path::new("unused"))
            .args(["verify", "--tenant", tenant, "--corpus", corpus, "--json"])
            .output()
            .expect("runs");
        serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|_| panic!("no answer: {}", String::from_utf8_lossy(&out.stderr)))
    }
}

fn text(document: usize, version: usize) -> String {
    format!("version {version} of document {document}: owls hunt at night")
}

#[tokio::test(flavor = "multi_thread")]
async fn several_workers_share_the_work_and_none_of_it_is_lost_when_one_dies() {
    const DOCUMENTS: usize = 12;
    const VERSIONS: usize = 5;
    let cluster = Cluster::start().await;
    let mut workers = cluster.workers(3).await;
    let t1 = Caller::of(&cluster.nats, "t1").await;
    let mut jobs = Vec::new();
    for version in 0..VERSIONS {
        for document in 0..DOCUMENTS {
            let name = format!("d{document}");
            // Every third document ends deleted.
            let job = if version + 1 == VERSIONS && document % 3 == 0 {
                json!({ "corpus": "c", "deleteDocument": { "documentId": name } })
            } else {
                put("c", &name, &text(document, version))
            };
            jobs.push(t1.publish(&job).await.0);
        }
        if version == 2 {
            workers.remove(0).kill();
        }
    }
    for job in &jobs {
        let result = t1.result_within(job, REDELIVERY).await;
        assert_ne!(result["status"], "FAILED", "{result}");
    }
    for document in 0..DOCUMENTS {
        let contents = t1.contents("c", &format!("d{document}")).await;
        let expected = match document % 3 {
            0 => vec![],
            _ => vec![text(document, VERSIONS - 1)],
        };
        assert_eq!(contents, expected, "the newest version of d{document}");
    }
    let found = t1.retrieve("c", "owls hunt at night").await;
    assert_eq!(found["results"].as_array().map(Vec::len), Some(8));
    let check = cluster.verify("t1", "c");
    assert_eq!(check["clean"], true, "{check}");
    assert_eq!(check["documents"], "8");
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_no_foreign_chunk_in_the_cluster_profile() {
    for strategy in ["separate", "shared"] {
        let cluster = Cluster::start().await;
        let _worker = cluster
            .worker("w")
            .env("RAGBUS__TENANCY__STRATEGY", strategy)
            .env("RAGBUS__RETRIEVAL__LEGS", "dense,sparse,bm25")
            .env("RAGBUS__MODELS__CROSS_ENCODER", "minilm-pair")
            .start()
            .await;
        crate::isolation::nobody_meets(&cluster.nats).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_registrys_database_is_waited_for() {
    let mut cluster = Cluster::start().await;
    let _workers = cluster.workers(1).await;
    let t1 = Caller::of(&cluster.nats, "t1").await;
    t1.indexed(&put("c", "before", "The owl hunts.")).await;
    cluster.postgres.kill();
    let (job, _) = t1.publish(&put("c", "during", "The badger digs.")).await;
    // Retrieval reads no SQL.
    assert_eq!(t1.retrieve("c", "owl").await["outcome"], "OK");
    assert!(t1.result_message(&job).await.is_none());
    cluster.postgres.restart();
    assert_eq!(
        t1.result_within(&job, REDELIVERY).await["status"],
        "INDEXED"
    );
    assert_eq!(cluster.verify("t1", "c")["clean"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_store_is_told_in_time_and_got_over_without_a_restart() {
    let cluster = Cluster::start().await;
    let worker = cluster.worker("w").start().await;
    let t1 = Caller::of(&cluster.nats, "t1").await;
    t1.indexed(&put("c", "before", "The owl hunts.")).await;
    cluster.qdrant.set_down(true);
    let (job, _) = t1.publish(&put("c", "during", "The badger digs.")).await;
    worker.says("pulling pauses").await;
    let question = json!({ "corpus": "c", "query": "owl" });
    let budget = [("Rag-Timeout-Ms", "2000")];
    let started = std::time::Instant::now();
    let refused = t1.ask_with("retrieve", &budget, &question).await;
    assert!(started.elapsed() < std::time::Duration::from_secs(3));
    assert!(matches!(refused.code, 502 | 504), "{}", refused.code);
    assert!(t1.result_message(&job).await.is_none());
    cluster.qdrant.set_down(false);
    assert_eq!(
        t1.result_within(&job, REDELIVERY).await["status"],
        "INDEXED"
    );
    assert_eq!(t1.retrieve("c", "owl").await["outcome"], "OK");
    assert_eq!(cluster.verify("t1", "c")["clean"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_answers_as_the_embedded_profile() {
    let cluster = Cluster::start().await;
    let _workers = cluster.workers(1).await;
    let embedded = Service::start().await;
    let t1 = Caller::of(&cluster.nats, "t1").await;
    let texts = [
        "The owl hunts at night.",
        "Badgers dig tunnels.",
        "A bank grants loans.",
    ];
    for (number, content) in texts.iter().enumerate() {
        for caller in [&t1, &embedded.t1] {
            caller
                .indexed(&put("c", &format!("d{number}"), content))
                .await;
        }
    }
    for options in [
        json!({}),
        json!({ "fusion": { "denseWeight": 3 } }),
        json!({ "fusion": { "sparseWeight": 0 } }),
        json!({ "fusion": { "denseWeight": 0 } }),
    ] {
        let request = json!({ "corpus": "c", "query": "who digs at night?", "options": options, "explain": true });
        let answers = [
            t1.ask("retrieve", &request).await.ok(),
            embedded.t1.ask("retrieve", &request).await.ok(),
        ];
        let told = answers.map(|answer| {
            let results = answer["results"].as_array().expect("results").clone();
            results
                .iter()
                .map(|r| {
                    let score = r["relevanceScore"].as_f64().expect("a number");
                    (
                        r["documentId"].clone(),
                        r["scoreKind"].clone(),
                        (score * 1e4).round(),
                    )
                })
                .collect::<Vec<_>>()
        });
        assert_eq!(told[0], told[1], "{options}");
    }
}
