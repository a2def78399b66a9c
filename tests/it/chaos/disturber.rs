//! Kills what the jobs need, at moments by chance. Must not know what the jobs do.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::publisher::{Finished, reached};
use crate::cluster::Cluster;
use crate::harness::*;
use crate::qdrant_server::Fault;

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    Worker,
    Nats,
    Postgres,
    Qdrant,
    /// Both at once: what one would mend is not there.
    WorkerAndPostgres,
    WorkerAndNats,
    /// As when the power fails, as far as processes go.
    Everything,
    /// Writes that the store carries out later, in part, or without telling.
    Writes,
}

const ALL: [Blow; 8] = [
    Blow::Worker,
    Blow::Nats,
    Blow::Postgres,
    Blow::Qdrant,
    Blow::WorkerAndPostgres,
    Blow::WorkerAndNats,
    Blow::Everything,
    Blow::Writes,
];
/// So many jobs bring another round of all.
const ROUND: usize = 600;

fn rounds(jobs: usize) -> usize {
    (jobs / ROUND).max(1)
}

/// The cluster, and who strikes it.
pub struct Disturber {
    pub cluster: Cluster,
    workers: Vec<Worker>,
    /// How tenants share collections.
    strategy: &'static str,
    chance: StdRng,
    started: usize,
}

impl Disturber {
    pub async fn start(cluster: Cluster, workers: usize, seed: u64) -> Self {
        let mut chance = StdRng::seed_from_u64(seed);
        let mut disturber = Self {
            cluster,
            workers: Vec::new(),
            strategy: ["separate", "shared"][chance.random_range(0..2)],
            chance,
            started: 0,
        };
        while disturber.workers.len() < workers {
            disturber.start_worker().await;
        }
        disturber
    }

    /// Everything that happens during so many jobs.
    pub async fn run(&mut self, jobs: usize, finished: Finished) {
        eprintln!(
            "{} blows, tenancy {}",
            ALL.len() * rounds(jobs),
            self.strategy
        );
        let mut blows = ALL.repeat(rounds(jobs));
        blows.shuffle(&mut self.chance);
        let mut moments: Vec<usize> = blows
            .iter()
            .map(|_| self.chance.random_range(jobs / 50..jobs * 9 / 10))
            .collect();
        moments.sort_unstable();
        for (blow, moment) in blows.into_iter().zip(moments) {
            reached(&finished, moment).await;
            eprintln!("{blow:?} after {} jobs", *finished.borrow());
            self.strike(blow).await;
        }
    }

    async fn strike(&mut self, blow: Blow) {
        match blow {
            Blow::Worker => {
                self.kill_worker();
                self.start_worker().await;
            }
            Blow::Nats => self.nats().await,
            Blow::Postgres => self.postgres().await,
            Blow::Qdrant => self.qdrant().await,
            Blow::WorkerAndPostgres => {
                self.kill_worker();
                self.postgres().await;
                self.start_worker().await;
            }
            Blow::WorkerAndNats => {
                self.kill_worker();
                self.nats().await;
                self.start_worker().await;
            }
            Blow::Everything => self.everything().await,
            Blow::Writes => self.writes(),
        }
    }

    async fn everything(&mut self) {
        let count = self.workers.len();
        let Cluster {
            nats,
            qdrant,
            postgres,
            ..
        } = &mut self.cluster;
        nats.kill();
        self.workers.drain(..).for_each(Worker::kill);
        tokio::task::block_in_place(|| {
            postgres.kill();
            qdrant.kill();
            qdrant.restart();
            postgres.restart();
        });
        nats.restart().await;
        while self.workers.len() < count {
            self.start_worker().await;
        }
    }

    fn kill_worker(&mut self) {
        let victim = self.chance.random_range(0..self.workers.len());
        self.workers.swap_remove(victim).kill();
    }

    async fn start_worker(&mut self) {
        let setup = self.cluster.worker(&format!("w{}", self.started));
        self.started += 1;
        // Few jobs at once: each that is in work at a kill comes back after 30 s.
        let setup = setup
            .env("RAGBUS__WORKER__INGEST_CONCURRENCY", "4")
            .env("RAGBUS__TENANCY__STRATEGY", self.strategy);
        self.workers.push(setup.start().await);
    }

    async fn nats(&mut self) {
        self.cluster.nats.kill();
        if self.chance.random() {
            let worker = &self.workers[0];
            eventually("a worker misses its server", PATIENCE, || async {
                (worker.readiness().await.0 == 503).then_some(())
            })
            .await;
        }
        self.cluster.nats.restart().await;
    }

    async fn postgres(&mut self) {
        let before = self.pauses();
        self.cluster.postgres.kill();
        self.noticed(before).await;
        tokio::task::block_in_place(|| self.cluster.postgres.restart());
    }

    async fn qdrant(&mut self) {
        let before = self.pauses();
        tokio::task::block_in_place(|| self.cluster.qdrant.kill());
        self.noticed(before).await;
        tokio::task::block_in_place(|| self.cluster.qdrant.restart());
    }

    /// Sometimes it lasts until a worker waits for the dependency, sometimes it is over at once.
    async fn noticed(&mut self, before: usize) {
        if self.chance.random() {
            eventually("a worker pauses", PATIENCE, || async {
                (self.pauses() > before).then_some(())
            })
            .await;
        }
    }

    fn pauses(&self) -> usize {
        let told = |worker: &Worker| worker.log().matches("pulling pauses").count();
        self.workers.iter().map(told).sum()
    }

    fn writes(&mut self) {
        let mut faults = [Fault::WaitTimeout, Fault::HalfApplied, Fault::Unanswered].repeat(3);
        faults.shuffle(&mut self.chance);
        for fault in faults {
            let method = match self.chance.random_bool(0.7) {
                true => "points/upsert",
                false => "points/delete",
            };
            self.cluster.qdrant.then(method, fault);
        }
    }
}
