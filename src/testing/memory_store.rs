//! [`MemoryVectorStore`]: an honest store in memory, for tests of everything above the port.
//!
//! It runs the same contract suite as the real ones, so it can't drift. Must not know an adapter.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::filter_eval::matches;
use super::memory_score::{fuse, normalise, score};
use crate::error::{Error, ErrorKind, Result};
use crate::fusion::sort_ranked;
use crate::model::{ChunkId, CollectionSchema, CorpusRef, DocumentId, StoredChunk, TenantId};
use crate::spi::{
    CollectionInfo, Hit, HybridQuery, LegQuery, Point, StoreAnswer, VectorStore, check_points,
};
use crate::tenancy::Placement;

/// A vector store in memory. Nothing is approximate; ties stand by chunk id.
#[derive(Debug, Default)]
pub struct MemoryVectorStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    aliases: HashMap<CorpusRef, Alias>,
    collections: HashMap<String, Collection>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Alias {
    live: BTreeMap<u32, String>,
    building: BTreeSet<u32>,
    dropped: u32,
}

#[derive(Debug)]
struct Collection {
    schema: CollectionSchema,
    points: BTreeMap<ChunkId, (TenantId, Point)>,
}

impl MemoryVectorStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn open(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(Error::new(ErrorKind::Draining, "the store is closed"));
        }
        Ok(state)
    }
}

impl State {
    fn find(&mut self, at: &Placement) -> Option<&mut Collection> {
        let live = &self.aliases.get(&at.corpus)?.live;
        let collection = live
            .get(&at.generation)
            .filter(|name| **name == at.collection)?;
        self.collections.get_mut(collection)
    }

    fn get(&mut self, at: &Placement) -> Result<&mut Collection> {
        self.find(at).ok_or_else(gone)
    }

    fn create(&mut self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        let alias = self.aliases.get(&at.corpus);
        let live = alias.is_some_and(|alias| alias.live.contains_key(&at.generation));
        if !live && alias.is_some_and(|alias| at.generation <= alias.dropped) {
            return Err(gone());
        }
        let fresh = || Collection {
            schema: schema.clone(),
            points: BTreeMap::new(),
        };
        let name = at.collection.clone();
        let stored = self.collections.entry(name).or_insert_with(fresh);
        stored.schema.require(schema)
    }
}

impl Collection {
    fn of<'a>(&'a self, tenant: &'a TenantId) -> impl Iterator<Item = &'a Point> {
        self.points
            .values()
            .filter(move |(owner, _)| owner == tenant)
            .map(|(_, point)| point)
    }

    fn rank(&self, tenant: &TenantId, query: &HybridQuery, leg: &LegQuery) -> Vec<(ChunkId, f32)> {
        let own: Vec<&Point> = self.of(tenant).collect();
        let allowed = |point: &&&Point| {
            let metadata = &point.stored.chunk.metadata;
            query
                .filter
                .as_ref()
                .is_none_or(|filter| matches(filter, metadata))
        };
        let mut ranked: Vec<(ChunkId, f32)> = own
            .iter()
            .filter(allowed)
            .filter_map(|point| Some((point.stored.id, score(leg, point, &own)?)))
            .filter(|(_, score)| leg.min_score.is_none_or(|floor| *score >= floor))
            .collect();
        sort_ranked(&mut ranked);
        ranked.truncate(leg.limit as usize);
        ranked
    }

    fn hits(&self, ranked: &[(ChunkId, f32)]) -> Vec<Hit> {
        let hit = |(id, score): &(ChunkId, f32)| {
            let (_, point) = self.points.get(id)?;
            Some(Hit {
                stored: point.stored.clone(),
                score: *score,
            })
        };
        ranked.iter().filter_map(hit).collect()
    }
}

#[async_trait]
impl VectorStore for MemoryVectorStore {
    async fn describe(&self, corpus: &CorpusRef) -> Result<Option<CollectionInfo>> {
        let state = self.open()?;
        let served = state.aliases.get(corpus).and_then(|alias| {
            let mut newest_first = alias.live.iter().rev();
            newest_first.find(|(generation, _)| !alias.building.contains(generation))
        });
        Ok(served.and_then(|(generation, name)| {
            let schema = state.collections.get(name)?.schema.clone();
            Some(CollectionInfo {
                generation: *generation,
                schema,
            })
        }))
    }

    async fn ensure(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        let mut state = self.open()?;
        state.create(at, schema)?;
        let alias = state.aliases.entry(at.corpus.clone()).or_default();
        alias.live.insert(at.generation, at.collection.clone());
        alias.building.remove(&at.generation);
        Ok(())
    }

    async fn prepare(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        let mut state = self.open()?;
        state.create(at, schema)?;
        let alias = state.aliases.entry(at.corpus.clone()).or_default();
        let before = alias.live.insert(at.generation, at.collection.clone());
        if before.is_none() {
            alias.building.insert(at.generation);
        }
        Ok(())
    }

    async fn serve(&self, at: &Placement) -> Result<()> {
        let mut state = self.open()?;
        state.get(at)?;
        if let Some(alias) = state.aliases.get_mut(&at.corpus) {
            alias.building.remove(&at.generation);
        }
        Ok(())
    }

    async fn upsert(&self, at: &Placement, points: Vec<Point>) -> Result<()> {
        let mut state = self.open()?;
        let collection = state.get(at)?;
        check_points(&points, collection.schema.dimension)?;
        for mut point in points {
            normalise(&mut point.vectors.dense);
            let stored = collection.points.get(&point.stored.id);
            if stored.is_none_or(|(owner, old)| {
                owner == at.tenant() && old.stored.sequence <= point.stored.sequence
            }) {
                collection
                    .points
                    .insert(point.stored.id, (at.tenant().clone(), point));
            }
        }
        Ok(())
    }

    async fn delete_below(&self, at: &Placement, document: &DocumentId, below: u64) -> Result<u32> {
        let mut state = self.open()?;
        let Some(collection) = state.find(at) else {
            return Ok(0);
        };
        let before = collection.points.len();
        collection.points.retain(|_, (owner, point)| {
            let stored = &point.stored;
            owner != at.tenant() || stored.document_id != *document || stored.sequence >= below
        });
        Ok((before - collection.points.len()) as u32)
    }

    async fn drop_generation(&self, at: &Placement) -> Result<()> {
        let mut state = self.open()?;
        if let Some(collection) = state.find(at) {
            collection
                .points
                .retain(|_, (owner, _)| owner != at.tenant());
        }
        let alias = state.aliases.entry(at.corpus.clone()).or_default();
        alias.live.remove(&at.generation);
        alias.building.remove(&at.generation);
        alias.dropped = alias.dropped.max(at.generation);
        if !at.shared {
            state.collections.remove(&at.collection);
        }
        Ok(())
    }

    async fn query(&self, at: &Placement, query: &HybridQuery) -> Result<StoreAnswer> {
        let mut state = self.open()?;
        let collection = state.get(at)?;
        let ranked = |leg: &LegQuery| collection.rank(at.tenant(), query, leg);
        let legs: Vec<_> = query.legs.iter().map(ranked).collect();
        let mut answer = StoreAnswer::default();
        if let Some(method) = query.fusion {
            answer.fused = collection.hits(&fuse(&legs, method));
        }
        if query.rank_legs {
            answer.legs = legs.iter().map(|leg| collection.hits(leg)).collect();
        }
        Ok(answer)
    }

    async fn document_chunks(
        &self,
        at: &Placement,
        document: &DocumentId,
        sequence: u64,
    ) -> Result<Vec<StoredChunk>> {
        let mut state = self.open()?;
        let points = state.find(at).map(|collection| &*collection);
        let points = points
            .into_iter()
            .flat_map(|collection| collection.of(at.tenant()));
        let mut chunks: Vec<StoredChunk> = points
            .map(|point| &point.stored)
            .filter(|stored| stored.document_id == *document && stored.sequence == sequence)
            .cloned()
            .collect();
        chunks.sort_by_key(|stored| (stored.chunk.ordinal, stored.id));
        Ok(chunks)
    }

    async fn points(&self, at: &Placement, ids: &[ChunkId]) -> Result<Vec<Point>> {
        let mut state = self.open()?;
        let points = state.find(at).map(|collection| &*collection);
        let points = points
            .into_iter()
            .flat_map(|collection| collection.of(at.tenant()));
        Ok(points
            .filter(|point| ids.contains(&point.stored.id))
            .cloned()
            .collect())
    }

    async fn count(&self, at: &Placement) -> Result<u64> {
        let mut state = self.open()?;
        Ok(state
            .find(at)
            .map_or(0, |collection| collection.of(at.tenant()).count() as u64))
    }

    fn write_limit(&self) -> Duration {
        Duration::ZERO
    }

    async fn health(&self) -> Result<()> {
        self.open().map(drop)
    }

    async fn close(&self) -> Result<()> {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed = true;
        Ok(())
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::NotFound, "the corpus has no such generation")
}
