//! One corpus under jobs, readers and a rebuild, and what must be true of it at any time and at the end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ragbus::adapters::parse::TextParser;
use ragbus::error::ErrorKind;
use ragbus::ingest::{
    IngestParts, IngestProcessor, NoObserver, RebuildParts, RebuildStatus, Rebuilder,
};
use ragbus::model::{
    ChunkInput, CorpusName, CorpusRef, DocumentId, IngestJob, IngestOperation, JobId, Leg,
    Metadata, PutChunks, TenantId,
};
use ragbus::spi::{
    DocumentRegistry, HybridQuery, LegQuery, LegVector, ModelSets, RebuildRegistry, RebuildState,
    VectorStore,
};
use ragbus::tenancy::TenancyStrategy;
use ragbus::testing::{MemoryBlobStore, MemoryRegistry, MemoryVectorStore, hash_set};
use tokio::time::sleep;

use crate::late_store::{Chance, LIMIT, LateStore};

pub const DOCUMENTS: usize = 5;
const LEASE: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_millis(100);

/// What a job does; texts are one chunk each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    Put(usize, Vec<String>),
    Delete(usize),
    DeleteCorpus,
}

impl Work {
    fn touches(&self, document: usize) -> bool {
        match self {
            Work::Put(d, _) | Work::Delete(d) => *d == document,
            Work::DeleteCorpus => true,
        }
    }
}

/// What is known of a document: jobs that haven't ended, and how often it changed.
#[derive(Debug, Clone, Default)]
struct Known {
    open: usize,
    version: u64,
    sequence: u64,
    texts: Vec<String>,
}

#[derive(Clone)]
pub struct World {
    pub chance: Arc<Chance>,
    pub store: Arc<dyn VectorStore>,
    registry: Arc<MemoryRegistry>,
    corpus: CorpusRef,
    known: Arc<Mutex<Vec<Known>>>,
    tenancy: TenancyStrategy,
}

pub fn id(document: usize) -> DocumentId {
    DocumentId::new(&format!("d{document}")).expect("valid")
}

fn old() -> ModelSets {
    ModelSets::of(hash_set("dense-old", 16))
}

/// Of another width: a vector of the wrong model is refused.
fn new() -> ModelSets {
    ModelSets::new(hash_set("dense-new", 24), vec![hash_set("dense-old", 16)])
}

impl World {
    pub fn new(seed: u64) -> Self {
        let chance = Chance::new(seed);
        let store = LateStore::over(Arc::new(MemoryVectorStore::new()), Arc::clone(&chance));
        let tenancy = match chance.below(2) {
            0 => TenancyStrategy::Separate,
            _ => TenancyStrategy::Shared,
        };
        Self {
            chance,
            store: Arc::new(store),
            registry: Arc::new(MemoryRegistry::new()),
            corpus: CorpusRef::new(
                TenantId::mint("acme").expect("valid"),
                CorpusName::new("docs").expect("valid"),
            ),
            known: Arc::new(Mutex::new(vec![Known::default(); DOCUMENTS])),
            tenancy,
        }
    }

    fn processor(&self, models: ModelSets) -> IngestProcessor {
        IngestProcessor::new(IngestParts {
            registry: self.registry.clone(),
            store: Arc::clone(&self.store),
            models,
            parser: Arc::new(TextParser),
            blobs: Arc::new(MemoryBlobStore::default()),
            tenancy: self.tenancy,
            observer: Arc::new(NoObserver),
        })
    }

    fn rebuilder(&self, owner: &str) -> Rebuilder {
        Rebuilder::new(RebuildParts {
            rebuilds: self.registry.clone(),
            documents: self.registry.clone(),
            store: Arc::clone(&self.store),
            models: new(),
            tenancy: self.tenancy,
            owner: owner.to_owned(),
            lease: LEASE,
            grace: GRACE,
        })
    }

    /// Every document once, with the old model.
    pub async fn fill(&self) {
        for document in 0..DOCUMENTS {
            let texts = vec![format!("first of {document}"), "and more".to_owned()];
            self.run(document as u64 + 1, Work::Put(document, texts), old())
                .await;
        }
    }

    pub async fn job(&self, sequence: u64, work: Work) {
        self.run(sequence, work, new()).await;
    }

    /// A job whose worker may die at any moment; it is delivered again when its writes have landed.
    async fn run(&self, sequence: u64, work: Work, models: ModelSets) {
        self.change(&work, |known| {
            known.open += 1;
            known.version += 1;
        });
        loop {
            let processor = self.processor(models.clone());
            let job = IngestJob {
                job_id: JobId::derive(None, sequence),
                corpus: self.corpus.clone(),
                sequence,
                attempt: 1,
                operation: operation(&work),
            };
            let mut task = tokio::spawn(async move { processor.process(&job).await });
            let dies = self.chance.below(4) == 0;
            let death = Duration::from_millis(self.chance.below(80));
            tokio::select! {
                done = &mut task => match done.expect("no panic") {
                    Ok(_) => break,
                    // The store gave a write up.
                    Err(error) if error.kind() == ErrorKind::DependencyFailed => {}
                    Err(error) => panic!("{error:?}"),
                },
                () = sleep(death), if dies => {
                    // It is dead when it says so, not when it is told: until then it may send a write.
                    task.abort();
                    let _ = (&mut task).await;
                }
            }
            sleep(LIMIT).await;
        }
        self.change(&work, |known| {
            known.open -= 1;
            if sequence > known.sequence {
                known.sequence = sequence;
                known.texts = match &work {
                    Work::Put(_, texts) => texts.clone(),
                    Work::Delete(_) | Work::DeleteCorpus => Vec::new(),
                };
            }
        });
    }

    fn change(&self, work: &Work, edit: impl Fn(&mut Known)) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = known.iter_mut().enumerate();
        touched
            .filter(|(document, _)| work.touches(*document))
            .for_each(|(_, known)| edit(known));
    }

    fn known(&self) -> Vec<Known> {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Asks for a rebuild, which is done when there is something to rebuild.
    pub async fn begin(&self) -> Option<RebuildStatus> {
        match self.rebuilder("asks").begin(&self.corpus).await {
            Ok(status) => Some(status),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{error:?}"),
        }
    }

    pub async fn cancel(&self) {
        // Nothing to call off is fine.
        let _ = self.rebuilder("asks").cancel(&self.corpus).await;
    }

    /// A worker that looks for rebuilds until it is aborted.
    pub fn worker(&self, owner: String) -> tokio::task::JoinHandle<()> {
        let rebuilder = self.rebuilder(&owner);
        tokio::spawn(async move {
            loop {
                rebuilder.work(&|| false).await.expect("lists");
                sleep(Duration::from_millis(20)).await;
            }
        })
    }

    /// What a reader sees now: nothing of what is deleted, all of what is settled.
    pub async fn read(&self, seed: u64) {
        let before = self.known();
        let Some(seen) = self.seen().await else {
            return;
        };
        for (document, (was, is)) in before.iter().zip(self.known()).enumerate() {
            if was.open == 0 && was.version == is.version {
                let found = seen.get(&id(document)).cloned().unwrap_or_default();
                assert_eq!(found, was.texts, "seed {seed}: a reader's d{document}");
            }
        }
    }

    /// Texts by document, in order; `None` when the generation went while it was read.
    async fn seen(&self) -> Option<BTreeMap<DocumentId, Vec<String>>> {
        let described = self.store.describe(&self.corpus).await.expect("described");
        let Some(info) = described else {
            return Some(BTreeMap::new());
        };
        let at = self.tenancy.place(&self.corpus, info.generation);
        let leg = LegQuery {
            leg: Leg::Dense,
            vector: LegVector::Dense(vec![1.0; info.schema.dimension as usize]),
            limit: 1000,
            min_score: None,
        };
        let query = HybridQuery {
            legs: vec![leg],
            filter: None,
            fusion: None,
            rank_legs: true,
        };
        let mut hits = match self.store.query(&at, &query).await {
            Ok(mut answer) => answer.legs.remove(0),
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => panic!("{error:?}"),
        };
        hits.sort_by_key(|hit| hit.stored.chunk.ordinal);
        let mut seen = BTreeMap::<DocumentId, Vec<String>>::new();
        for hit in hits {
            let texts = seen.entry(hit.stored.document_id).or_default();
            texts.push(hit.stored.chunk.content);
        }
        Some(seen)
    }

    /// Whether the newest rebuild is over.
    pub async fn is_over(&self) -> bool {
        let found = self.registry.rebuild(&self.corpus).await.expect("reads");
        found.is_none_or(|(rebuild, _)| rebuild.state.is_over())
    }

    /// The end: the highest sequence of each document, in the new generation, and nothing else anywhere.
    pub async fn check_end(&self, seed: u64) {
        self.read(seed).await;
        let corpora = self
            .registry
            .corpora(&self.corpus.tenant)
            .await
            .expect("lists");
        let served = self.store.describe(&self.corpus).await.expect("described");
        let known: usize = self.known().iter().map(|known| known.texts.len()).sum();
        let mut stored = 0;
        for generation in 1..20 {
            let at = self.tenancy.place(&self.corpus, generation);
            stored += self.store.count(&at).await.expect("counts");
        }
        assert_eq!(
            stored, known as u64,
            "seed {seed}: points of all generations"
        );
        if let (Some(entry), Some(info)) = (corpora.first(), served) {
            assert_eq!(entry.generation, info.generation, "seed {seed}");
            assert_eq!(info.schema.dense_model, "dense-new", "seed {seed}");
            assert_eq!(entry.dense_model, "dense-new", "seed {seed}");
        }
        let rebuild = self.registry.rebuild(&self.corpus).await.expect("reads");
        if let Some((rebuild, progress)) = rebuild {
            assert_ne!(rebuild.state, RebuildState::Building, "seed {seed}");
            assert_eq!(progress.missing, 0, "seed {seed}");
        }
    }
}

fn operation(work: &Work) -> IngestOperation {
    match work {
        Work::Put(document, texts) => IngestOperation::PutChunks(PutChunks {
            document_id: id(*document),
            chunks: texts
                .iter()
                .map(|text| ChunkInput {
                    content: text.clone(),
                    metadata: Metadata::default(),
                })
                .collect(),
            metadata: Metadata::default(),
            expires_at: None,
        }),
        Work::Delete(document) => IngestOperation::DeleteDocument(id(*document)),
        Work::DeleteCorpus => IngestOperation::DeleteCorpus,
    }
}
