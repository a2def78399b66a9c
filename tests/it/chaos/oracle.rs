//! What must be in the end, from what was published and under which sequence: for each document the highest one decides.
//!
//! Must not know what happened on the way.

use std::collections::BTreeMap;

use ragbus::ingest::chunk_id;
use ragbus::model::{CorpusName, CorpusRef, DocumentId, TenantId};
use serde_json::{Value, json};
use uuid::Uuid;

use super::publisher::{Sent, caller};
use super::script::{Body, CORPORA, Change, Job, Place, TENANTS};
use crate::cluster::Cluster;
use crate::harness::*;

/// The collection that holds no chunks: it tells which generations live.
const MARKS: &str = "ragbus_meta";

/// The last word on each document that was ever named.
pub struct Oracle<'a> {
    jobs: Vec<(&'a Job, Sent)>,
    pub last: BTreeMap<Place, (&'a Job, u64)>,
    fences: BTreeMap<(&'static str, &'static str), u64>,
}

impl<'a> Oracle<'a> {
    pub fn new(script: &'a [Job], sent: &[Sent]) -> Self {
        let jobs: Vec<_> = script.iter().zip(sent.iter().copied()).collect();
        let mut oracle = Self {
            last: BTreeMap::new(),
            fences: BTreeMap::new(),
            jobs,
        };
        for (job, Sent { sequence, .. }) in &oracle.jobs {
            if job.change == Change::DeleteCorpus {
                let corpus = (job.place.0, job.place.1);
                let fence = oracle.fences.entry(corpus).or_default();
                *fence = (*fence).max(*sequence);
                continue;
            }
            let last = oracle.last.entry(job.place.clone());
            let last = last.or_insert((job, *sequence));
            if *sequence > last.1 {
                *last = (job, *sequence);
            }
        }
        oracle
    }

    /// The documents that must be there, and the sequence of their newest jobs.
    pub fn alive(&self) -> impl Iterator<Item = (&Place, &'a Body, u64)> {
        self.last
            .iter()
            .filter_map(|(place, (job, sequence))| match &job.change {
                Change::Put(body) if *sequence > self.fence(place) => {
                    Some((place, body, *sequence))
                }
                _ => None,
            })
    }

    fn fence(&self, place: &Place) -> u64 {
        let fence = self.fences.get(&(place.0, place.1));
        fence.copied().unwrap_or_default()
    }

    /// Each job has one result, none failed, and the one that decides was carried out.
    pub async fn check_results(&self, callers: &[Caller], nats: &Nats) {
        assert_eq!(nats.waiting("RAG_DLQ").await, 0, "dead letters");
        assert_eq!(nats.waiting("RAG_RESULT").await, self.jobs.len() as u64);
        for (job, sent) in &self.jobs {
            let message = caller(callers, job.place.0).result_message(&job.id).await;
            let result = message.expect("a result").json();
            let status = result["status"].as_str().expect("a status");
            let fitting: &[&str] = match job.change {
                Change::Put(_) => &["INDEXED", "METADATA_UPDATED", "UNCHANGED", "SUPERSEDED"],
                Change::Delete | Change::DeleteCorpus => &["DELETED", "SUPERSEDED"],
            };
            assert!(fitting.contains(&status), "{job:?}: {result}");
            let last = self.last.get(&job.place);
            if last.is_some_and(|last| last.1 == sent.sequence && last.1 > self.fence(&job.place)) {
                assert_ne!(status, "SUPERSEDED", "{job:?}: {result}");
                assert_eq!(result["sequence"], sent.sequence.to_string(), "{job:?}");
            }
        }
    }

    /// The catalog shows the newest version of each document, and nothing of the others.
    pub async fn check_catalog(&self, callers: &[Caller]) {
        let alive: BTreeMap<_, _> = self.alive().map(|(p, b, s)| (p, (b, s))).collect();
        for place in self.last.keys() {
            let shown = caller(callers, place.0).document(place.1, &place.2).await;
            let Some((body, sequence)) = alive.get(place) else {
                assert!(shown.is_none(), "{place:?} is there again: {shown:?}");
                continue;
            };
            let shown = shown.unwrap_or_else(|| panic!("{place:?} is lost"));
            let chunks = shown["chunks"].as_array().expect("chunks");
            let each = |field: &str| -> Vec<&Value> { chunks.iter().map(|c| &c[field]).collect() };
            assert_eq!(
                each("content"),
                body.chunks.iter().collect::<Vec<_>>(),
                "{place:?}"
            );
            let ids: Vec<_> = ids(place, body).map(|id| id.to_string()).collect();
            assert_eq!(each("chunkId"), ids.iter().collect::<Vec<_>>(), "{place:?}");
            assert_eq!(shown["metadata"], json!({ "mark": body.mark }), "{place:?}");
            assert_eq!(shown["sequence"], sequence.to_string(), "{place:?}");
        }
        self.check_counts(callers).await;
    }

    async fn check_counts(&self, callers: &[Caller]) {
        for tenant in TENANTS {
            for corpus in caller(callers, tenant)
                .corpora()
                .await
                .as_array()
                .expect("a list")
            {
                let own = self
                    .alive()
                    .filter(|(p, ..)| p.0 == tenant && corpus["corpus"] == p.1);
                let chunks: Vec<_> = own.map(|(_, body, _)| body.chunks.len()).collect();
                assert_eq!(corpus["documents"], chunks.len(), "{tenant}: {corpus}");
                assert_eq!(
                    corpus["chunks"],
                    chunks.iter().sum::<usize>(),
                    "{tenant}: {corpus}"
                );
            }
        }
    }

    /// The store holds exactly the chunks of what is alive.
    pub fn check_points(&self, cluster: &Cluster) {
        let alive = self.alive();
        let mut missing: BTreeMap<Uuid, &Place> = alive
            .flat_map(|(place, body, _)| ids(place, body).map(move |id| (id, place)))
            .collect();
        let engine = cluster.qdrant.engine();
        let mut surplus = Vec::new();
        let corpora = engine.collections.iter();
        for (name, collection) in corpora.filter(|(name, _)| *name != MARKS) {
            for (id, point) in &collection.points {
                if missing.remove(&Uuid::from_u128(*id)).is_none() {
                    let field = |field: &str| format!("{:?}", point.payload[field].kind);
                    surplus.push((name, field("document_id"), field("sequence")));
                }
            }
        }
        assert!(missing.is_empty(), "lost points: {missing:?}");
        assert!(surplus.is_empty(), "surplus points: {surplus:?}");
    }

    /// Registry and store agree, by the program's own comparison.
    pub fn check_verify(&self, cluster: &Cluster) {
        for tenant in TENANTS {
            for corpus in CORPORA {
                let told = cluster.verify(tenant, corpus);
                assert_eq!(told["clean"], true, "{tenant} {corpus}: {told}");
                let own = self
                    .alive()
                    .filter(|(p, ..)| (p.0, p.1) == (tenant, corpus));
                assert_eq!(told["documents"], own.count().to_string(), "{told}");
            }
        }
    }

    /// Retrieval finds chunks of living documents only, with their text.
    pub async fn check_retrieval(&self, callers: &[Caller]) {
        for tenant in TENANTS {
            for corpus in CORPORA {
                let question =
                    json!({ "corpus": corpus, "query": "owl badger river", "limit": 100 });
                let found = caller(callers, tenant)
                    .ask("retrieve", &question)
                    .await
                    .ok();
                let found = found["results"].as_array().expect("results");
                assert!(!found.is_empty(), "{tenant} {corpus}");
                for chunk in found {
                    let document = chunk["documentId"].as_str().expect("an id").to_owned();
                    let place = (tenant, corpus, document);
                    let body = self.alive().find(|(p, ..)| **p == place);
                    let (_, body, _) = body.unwrap_or_else(|| panic!("{place:?} is dead"));
                    let ordinal = chunk["ordinal"].as_u64().expect("a number") as usize;
                    assert_eq!(chunk["content"], body.chunks[ordinal], "{place:?}");
                }
            }
        }
    }
}

pub fn ids(place: &Place, body: &Body) -> impl Iterator<Item = Uuid> + use<> {
    let tenant = TenantId::mint(place.0).expect("valid");
    let corpus = CorpusRef::new(tenant, CorpusName::new(place.1).expect("valid"));
    let document = DocumentId::new(&place.2).expect("valid");
    let id = move |ordinal| chunk_id(&corpus, &document, ordinal).to_string();
    (0..body.chunks.len() as u32).map(move |ordinal| id(ordinal).parse().expect("a UUID"))
}
