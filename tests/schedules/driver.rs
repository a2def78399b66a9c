//! One random schedule, and the check of its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use ragbus::error::Result;
use ragbus::model::{
    ChunkInput, DocumentId, IngestJob, IngestOperation, IngestResult, IngestStatus, JobId,
    Metadata, MetadataValue, PutChunks,
};
use ragbus::spi::{IngestStep, VectorStore};
use ragbus::tenancy::TenancyStrategy;
use ragbus::testing::WriteFault;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::world::{Turnstile, World};

/// SplitMix64: small, and the same everywhere.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

const DOCUMENTS: [&str; 2] = ["a", "b"];
const TEXTS: [&[&str]; 4] = [&["one", "two"], &["three"], &["four", "five", "six"], &[]];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Put {
        document: usize,
        text: usize,
        meta: u8,
    },
    Delete {
        document: usize,
    },
    DeleteCorpus,
}

impl Work {
    fn random(rng: &mut Rng) -> Self {
        let document = rng.below(DOCUMENTS.len());
        match rng.below(10) {
            0..=6 => Work::Put {
                document,
                text: rng.below(TEXTS.len()),
                meta: rng.below(2) as u8,
            },
            7 | 8 => Work::Delete { document },
            _ => Work::DeleteCorpus,
        }
    }

    fn touches(self, document: usize) -> bool {
        match self {
            Work::Put { document: d, .. } | Work::Delete { document: d } => d == document,
            Work::DeleteCorpus => true,
        }
    }
}

fn operation(work: Work) -> IngestOperation {
    let id = |document: usize| DocumentId::new(DOCUMENTS[document]).expect("valid");
    match work {
        Work::Put {
            document,
            text,
            meta,
        } => {
            let value = MetadataValue::Number(meta.into());
            let metadata = Metadata::new("metadata", BTreeMap::from([("m".to_owned(), value)]));
            let chunk = |content: &&str| ChunkInput {
                content: (*content).to_owned(),
                metadata: Metadata::default(),
            };
            IngestOperation::PutChunks(PutChunks {
                document_id: id(document),
                chunks: TEXTS[text].iter().map(chunk).collect(),
                metadata: metadata.expect("valid"),
                expires_at: None,
            })
        }
        Work::Delete { document } => IngestOperation::DeleteDocument(id(document)),
        Work::DeleteCorpus => IngestOperation::DeleteCorpus,
    }
}

/// A delivery in work.
struct Delivery {
    sequence: u64,
    turnstile: Arc<Turnstile>,
    arrivals: mpsc::UnboundedReceiver<IngestStep>,
    task: JoinHandle<Result<IngestResult>>,
    at: Option<IngestStep>,
}

fn deliver(world: &World, sequence: u64, work: Work, attempt: u32) -> Delivery {
    let (turnstile, arrivals) = Turnstile::new();
    let processor = world.processor(Arc::clone(&turnstile));
    let job = IngestJob {
        job_id: JobId::derive(None, sequence),
        corpus: world.corpus.clone(),
        sequence,
        attempt,
        operation: operation(work),
    };
    let task = tokio::spawn(async move { processor.process(&job).await });
    Delivery {
        sequence,
        turnstile,
        arrivals,
        task,
        at: None,
    }
}

/// Lets a delivery run to its next step. `Some` when it has ended.
async fn step(delivery: &mut Delivery) -> Option<IngestResult> {
    if delivery.at.is_some() {
        delivery.turnstile.let_on();
    }
    tokio::select! {
        biased;
        Some(step) = delivery.arrivals.recv() => {
            delivery.at = Some(step);
            None
        }
        ended = &mut delivery.task => Some(ended.expect("no panic").expect("no error")),
    }
}

/// Runs a schedule to its end and checks it.
pub async fn run(world: &World, rng: &mut Rng, seed: u64) {
    let jobs: Vec<Work> = (0..2 + rng.below(4)).map(|_| Work::random(rng)).collect();
    let mut pending: Vec<u64> = (1..=jobs.len() as u64).collect();
    // One job is delivered twice.
    pending.push(1 + rng.below(jobs.len()) as u64);
    let mut crashes = 2;
    let mut running: Vec<Delivery> = Vec::new();
    let mut told: BTreeMap<u64, Vec<IngestStatus>> = BTreeMap::new();
    while !(pending.is_empty() && running.is_empty()) {
        let start = !pending.is_empty() && (running.is_empty() || rng.below(3) == 0);
        if start {
            let sequence = pending.remove(rng.below(pending.len()));
            running.push(deliver(world, sequence, jobs[sequence as usize - 1], 1));
        }
        let index = rng.below(running.len());
        if crashes > 0 && running[index].at.is_some() && rng.below(8) == 0 {
            crashes -= 1;
            let dead = running.remove(index);
            crash(world, rng, dead, &mut pending).await;
        } else if let Some(result) = step(&mut running[index]).await {
            told.entry(result.sequence).or_default().push(result.status);
            running.remove(index);
        }
    }
    if world.unbounded {
        world.store.land().await.expect("landed");
    }
    check_reports(&told, seed);
    check_end(world, &jobs, seed).await;
}

/// The worker dies. A write it was about to make may have been sent: it lands, or is lost, before the redelivery starts.
async fn crash(world: &World, rng: &mut Rng, mut dead: Delivery, pending: &mut Vec<u64>) {
    if dead.at == Some(IngestStep::Embedded) && rng.below(2) == 0 {
        world.store.then(WriteFault::Hangs);
        dead.turnstile.let_on();
        // An empty document writes nothing: it goes on to its next step instead.
        while !world.store.holds_a_write() && dead.arrivals.is_empty() && !dead.task.is_finished() {
            tokio::task::yield_now().await;
        }
    }
    dead.task.abort();
    let _ = (&mut dead.task).await;
    if !world.store.holds_a_write() {
        world.store.clear_faults();
    } else if !world.unbounded {
        match rng.below(2) {
            0 => world.store.land().await.expect("landed"),
            _ => world.store.lose(),
        }
    }
    pending.push(dead.sequence);
}

/// Every delivery of a job says the same, or that a newer one won.
fn check_reports(told: &BTreeMap<u64, Vec<IngestStatus>>, seed: u64) {
    for (sequence, statuses) in told {
        let mut own: Vec<_> = statuses
            .iter()
            .filter(|s| **s != IngestStatus::Superseded)
            .collect();
        own.dedup();
        assert!(
            own.len() <= 1,
            "seed {seed}: job {sequence} said {statuses:?}"
        );
    }
}

async fn check_end(world: &World, jobs: &[Work], seed: u64) {
    let mut expected_points = 0;
    let corpora = world
        .registry
        .corpora(&world.corpus.tenant)
        .await
        .expect("lists");
    let generation = corpora.first().map_or(1, |corpus| corpus.generation);
    let at = TenancyStrategy::Separate.place(&world.corpus, generation);
    for (document, id) in DOCUMENTS.iter().enumerate() {
        let last = jobs.iter().rposition(|work| work.touches(document));
        let id = DocumentId::new(id).expect("valid");
        let entry = world
            .registry
            .document(&world.corpus, &id)
            .await
            .expect("reads");
        let Some(Work::Put { text, meta, .. }) = last.map(|index| jobs[index]) else {
            assert!(entry.is_none(), "seed {seed}: {id:?} lives, jobs {jobs:?}");
            continue;
        };
        let entry = entry.unwrap_or_else(|| panic!("seed {seed}: {id:?} is gone, jobs {jobs:?}"));
        let sequence = last.map_or(0, |index| index as u64 + 1);
        assert_eq!(entry.sequence, sequence, "seed {seed}: jobs {jobs:?}");
        let chunks = world
            .store
            .document_chunks(&at, &id, entry.live)
            .await
            .expect("reads");
        let texts: Vec<&str> = chunks.iter().map(|c| c.chunk.content.as_str()).collect();
        assert_eq!(texts, TEXTS[text], "seed {seed}: jobs {jobs:?}");
        let right = MetadataValue::Number(meta.into());
        assert!(
            chunks
                .iter()
                .all(|c| c.chunk.metadata.get("m") == Some(&right)),
            "seed {seed}: metadata, jobs {jobs:?}"
        );
        expected_points += chunks.len() as u64;
    }
    let points = world.store.count(&at).await.expect("counts");
    assert_eq!(
        points, expected_points,
        "seed {seed}: leftovers, jobs {jobs:?}"
    );
}
