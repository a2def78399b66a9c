//! The jobs of a run, by chance from a seed. Must not know how they are published or carried out.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::harness::name;

/// The first and the last share a lane: they take turns.
pub const TENANTS: [&str; 3] = ["t1", "t2", "t14"];
pub const CORPORA: [&str; 3] = ["c0", "c1", "c2"];
/// Jobs of a document on average.
const VERSIONS: usize = 7;
/// Jobs without a result at most: kills must meet work, and the tenant's backlog has an end.
pub const AHEAD: usize = 100;
/// The share of jobs whose publisher does not hear that they are stored.
const UNHEARD: f64 = 0.04;

/// Tenant, corpus, document; the document of a corpus deletion is empty.
pub type Place = (&'static str, &'static str, String);

/// What a document holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    pub chunks: Vec<String>,
    /// Its only metadata value.
    pub mark: String,
}

/// What a job does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Put(Body),
    Delete,
    DeleteCorpus,
}

/// A job, with the names it keeps however often it is sent.
#[derive(Debug, Clone)]
pub struct Job {
    pub place: Place,
    pub change: Change,
    pub id: String,
    pub message: String,
    /// The first answer gets lost, and the job is sent again when all jobs but so many before it are finished.
    pub unheard: Option<usize>,
}

impl Job {
    fn new(place: Place, change: Change) -> Self {
        Self {
            place,
            change,
            id: name(),
            message: name(),
            unheard: None,
        }
    }

    fn heard_by(mut self, chance: &mut StdRng) -> Self {
        self.unheard = chance
            .random_bool(UNHEARD)
            .then(|| chance.random_range(0..AHEAD));
        self
    }

    /// The job on the wire.
    pub fn json(&self) -> Value {
        let (_, corpus, document) = &self.place;
        match &self.change {
            Change::DeleteCorpus => json!({ "corpus": corpus, "deleteCorpus": {} }),
            Change::Delete => {
                json!({ "corpus": corpus, "deleteDocument": { "documentId": document } })
            }
            Change::Put(Body { chunks, mark }) if chunks.len() == 1 => json!({
                "corpus": corpus,
                "putDocument": { "documentId": document, "text": chunks[0], "metadata": { "mark": mark } }
            }),
            Change::Put(Body { chunks, mark }) => {
                let chunks: Vec<Value> = chunks.iter().map(|c| json!({ "content": c })).collect();
                json!({
                    "corpus": corpus,
                    "putChunks": { "documentId": document, "chunks": chunks, "metadata": { "mark": mark } }
                })
            }
        }
    }
}

/// The jobs in the order of publishing. Jobs near each other may overtake each other: sequences decide, not this order.
pub fn script(seed: u64, jobs: usize) -> Vec<Job> {
    let mut chance = StdRng::seed_from_u64(seed);
    let documents = (jobs / VERSIONS / TENANTS.len() / CORPORA.len()).max(2);
    let corpus_dies = jobs / 3 + chance.random_range(0..jobs / 3);
    let mut known: BTreeMap<Place, Body> = BTreeMap::new();
    let mut script = Vec::with_capacity(jobs);
    for number in 0..jobs {
        if number == corpus_dies {
            known.retain(|place, _| (place.0, place.1) != (TENANTS[0], CORPORA[0]));
            let place = (TENANTS[0], CORPORA[0], String::new());
            script.push(Job::new(place, Change::DeleteCorpus));
            continue;
        }
        let place = (
            TENANTS[chance.random_range(0..TENANTS.len())],
            CORPORA[chance.random_range(0..CORPORA.len())],
            format!("d{}", chance.random_range(0..documents)),
        );
        let change = change(&mut chance, number, &place, known.get(&place));
        match &change {
            Change::Put(body) => known.insert(place.clone(), body.clone()),
            Change::Delete | Change::DeleteCorpus => known.remove(&place),
        };
        script.push(Job::new(place, change).heard_by(&mut chance));
    }
    script
}

fn change(chance: &mut StdRng, number: usize, place: &Place, known: Option<&Body>) -> Change {
    let mark = format!("m{number}");
    let text = |part: &str| format!("{part} {number} of {} in {}", place.2, place.0);
    match (chance.random_range(0..100), known) {
        (0..15, _) => Change::Delete,
        (15..35, Some(body)) => Change::Put(body.clone()),
        (35..55, Some(body)) => Change::Put(Body {
            mark,
            ..body.clone()
        }),
        (55..70, _) => Change::Put(Body {
            chunks: vec![text("owl"), text("badger")],
            mark,
        }),
        _ => Change::Put(Body {
            chunks: vec![text("river")],
            mark,
        }),
    }
}
