//! Rebuilds in memory, beside the documents of [`MemoryRegistry`]. Must not know SQL.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::MemoryRegistry;
use super::memory_registry::Corpus;
use crate::error::Result;
use crate::model::{CorpusRef, DocumentId, DocumentRow, ModelPair, Timestamp};
use crate::spi::{Rebuild, RebuildProgress, RebuildRegistry, RebuildState, Switch, Unbuilt};

/// A rebuild and its copies.
#[derive(Debug, Clone)]
pub(super) struct MemoryRebuild {
    pub(super) rebuild: Rebuild,
    owner: String,
    leased_until: Option<Instant>,
    drop_at: Option<Instant>,
    /// Sequence (0 = begun) and missing chunks.
    copies: BTreeMap<DocumentId, (u64, u32)>,
}

impl MemoryRebuild {
    fn is_leased(&self) -> bool {
        self.leased_until
            .is_some_and(|until| until > Instant::now())
    }

    fn is_of(&self, owner: &str) -> bool {
        self.owner == owner && !self.rebuild.state.is_over()
    }

    fn shown(&self) -> Rebuild {
        let due = self.drop_at.is_some_and(|at| at <= Instant::now());
        Rebuild {
            drop_due: due,
            ..self.rebuild.clone()
        }
    }

    fn lacks(&self, id: &DocumentId, row: &DocumentRow) -> bool {
        match self.copies.get(id) {
            None => !row.deleted,
            Some((live, _)) => *live != row.live,
        }
    }
}

impl Corpus {
    fn building(&mut self, generation: u32) -> Option<&mut MemoryRebuild> {
        self.rebuild.as_mut().filter(|r| {
            r.rebuild.generation == generation && r.rebuild.state == RebuildState::Building
        })
    }

    fn unbuilt(&self) -> Vec<Unbuilt> {
        let Some(rebuild) = &self.rebuild else {
            return Vec::new();
        };
        let rows = self.documents.iter().map(|(id, (row, _))| (id, row));
        let lacking = rows.filter(|(id, row)| rebuild.lacks(id, row));
        let shown = lacking.map(|(id, row)| Unbuilt {
            document: id.clone(),
            live: row.live,
            chunks: if row.deleted { 0 } else { row.chunks },
            open: row.claimed > row.sequence,
            expires_at: row.expires_at,
        });
        shown.collect()
    }
}

impl MemoryRegistry {
    fn with<T>(&self, corpus: &CorpusRef, change: impl FnOnce(&mut Corpus) -> T) -> Option<T> {
        self.locked().get_mut(corpus).map(change)
    }

    fn of_owner(&self, corpus: &CorpusRef, owner: &str, change: impl FnOnce(&mut MemoryRebuild)) {
        self.with(corpus, |entry| {
            entry
                .rebuild
                .as_mut()
                .filter(|r| r.is_of(owner))
                .map(change)
        });
    }
}

#[async_trait]
impl RebuildRegistry for MemoryRegistry {
    async fn begin_rebuild(
        &self,
        corpus: &CorpusRef,
        models: &ModelPair,
    ) -> Result<Option<Rebuild>> {
        let begun = self.with(corpus, |entry| {
            let before = entry.rebuild.as_ref();
            if let Some(open) = before.filter(|r| !r.rebuild.state.is_over()) {
                return Some(open.shown());
            }
            if !entry.active {
                return None;
            }
            let ever = before.map_or(0, |r| r.rebuild.generation);
            let rebuild = Rebuild {
                corpus: corpus.clone(),
                generation: entry.generation.max(ever) + 1,
                previous: entry.generation,
                models: models.clone(),
                state: RebuildState::Building,
                problem: String::new(),
                drop_due: false,
                started_at: Timestamp::now(),
            };
            entry.rebuild = Some(MemoryRebuild {
                rebuild: rebuild.clone(),
                owner: String::new(),
                leased_until: None,
                drop_at: None,
                copies: BTreeMap::new(),
            });
            Some(rebuild)
        });
        Ok(begun.flatten())
    }

    async fn rebuild(&self, corpus: &CorpusRef) -> Result<Option<(Rebuild, RebuildProgress)>> {
        let found = self.with(corpus, |entry| {
            let rebuild = entry.rebuild.as_ref()?;
            let live = || entry.documents.iter().filter(|(_, (row, _))| !row.deleted);
            let built = live().filter(|(id, (row, _))| !rebuild.lacks(id, row));
            let progress = RebuildProgress {
                documents: live().count() as u64,
                built: built.count() as u64,
                missing: rebuild.copies.values().map(|c| u64::from(c.1)).sum(),
            };
            Some((rebuild.shown(), progress))
        });
        Ok(found.flatten())
    }

    async fn cancel_rebuild(&self, corpus: &CorpusRef) -> Result<Option<Rebuild>> {
        let found = self.with(corpus, |entry| {
            let rebuild = entry.rebuild.as_mut()?;
            if rebuild.rebuild.state == RebuildState::Building {
                rebuild.rebuild.state = RebuildState::Cancelling;
            }
            Some(rebuild.shown())
        });
        Ok(found.flatten())
    }

    async fn free_rebuilds(&self) -> Result<Vec<Rebuild>> {
        let corpora = self.locked();
        let rebuilds = corpora.values().filter_map(|entry| entry.rebuild.as_ref());
        let free = rebuilds.filter(|r| !r.rebuild.state.is_over() && !r.is_leased());
        let mut free: Vec<Rebuild> = free.map(MemoryRebuild::shown).collect();
        free.sort_by_key(|rebuild| rebuild.started_at);
        Ok(free)
    }

    async fn lease_rebuild(
        &self,
        corpus: &CorpusRef,
        owner: &str,
        lease: Duration,
    ) -> Result<Option<Rebuild>> {
        let leased = self.with(corpus, |entry| {
            let rebuild = entry.rebuild.as_mut()?;
            let own = rebuild.owner == owner;
            let over = rebuild.rebuild.state.is_over();
            if over || (rebuild.is_leased() && !own) {
                return None;
            }
            owner.clone_into(&mut rebuild.owner);
            rebuild.leased_until = Some(Instant::now() + lease);
            Some(rebuild.shown())
        });
        Ok(leased.flatten())
    }

    async fn release_rebuild(&self, corpus: &CorpusRef, owner: &str) -> Result<()> {
        self.of_owner(corpus, owner, |rebuild| rebuild.leased_until = None);
        Ok(())
    }

    async fn note_problem(&self, corpus: &CorpusRef, owner: &str, problem: &str) -> Result<()> {
        self.of_owner(corpus, owner, |rebuild| {
            problem.clone_into(&mut rebuild.rebuild.problem);
        });
        Ok(())
    }

    async fn move_rebuild(&self, corpus: &CorpusRef, owner: &str, generation: u32) -> Result<bool> {
        let mut moved = false;
        self.of_owner(corpus, owner, |rebuild| {
            if rebuild.rebuild.state == RebuildState::Building {
                rebuild.rebuild.generation = generation;
                rebuild.copies.clear();
                moved = true;
            }
        });
        Ok(moved)
    }

    async fn unbuilt(
        &self,
        corpus: &CorpusRef,
        after: Option<&DocumentId>,
        limit: u32,
    ) -> Result<Vec<Unbuilt>> {
        let found = self
            .with(corpus, |entry| entry.unbuilt())
            .unwrap_or_default();
        let rest = found
            .into_iter()
            .filter(|unbuilt| after.is_none_or(|after| unbuilt.document > *after));
        Ok(rest.take(limit as usize).collect())
    }

    async fn begin_copies(
        &self,
        corpus: &CorpusRef,
        generation: u32,
        owner: &str,
        documents: &[DocumentId],
    ) -> Result<bool> {
        let begun = self.with(corpus, |entry| {
            let Some(rebuild) = entry.building(generation).filter(|r| r.owner == owner) else {
                return false;
            };
            for document in documents {
                rebuild.copies.entry(document.clone()).or_insert((0, 0));
            }
            true
        });
        Ok(begun.unwrap_or(false))
    }

    async fn end_copy(
        &self,
        corpus: &CorpusRef,
        generation: u32,
        document: &DocumentId,
        live: u64,
        missing: u32,
    ) -> Result<()> {
        self.with(corpus, |entry| {
            let copy = entry.building(generation)?.copies.get_mut(document)?;
            *copy = (live, missing);
            Some(())
        });
        Ok(())
    }

    async fn switch_rebuild(
        &self,
        corpus: &CorpusRef,
        generation: u32,
        owner: &str,
        grace: Duration,
    ) -> Result<Switch> {
        let switched = self.with(corpus, |entry| {
            let behind = entry.unbuilt().len() as u64;
            let Some(rebuild) = entry.building(generation).filter(|r| r.owner == owner) else {
                return Switch::Lost;
            };
            if behind > 0 {
                return Switch::Behind(behind);
            }
            rebuild.rebuild.state = RebuildState::Switched;
            rebuild.drop_at = Some(Instant::now() + grace);
            let models = rebuild.rebuild.models.clone();
            entry.models = models;
            entry.generation = generation;
            entry.unserved = true;
            Switch::Switched
        });
        Ok(switched.unwrap_or(Switch::Lost))
    }

    async fn note_served(&self, corpus: &CorpusRef, generation: u32) -> Result<()> {
        self.with(corpus, |entry| {
            if entry.generation == generation {
                entry.unserved = false;
            }
        });
        Ok(())
    }

    async fn end_rebuild(
        &self,
        corpus: &CorpusRef,
        generation: u32,
        state: RebuildState,
    ) -> Result<()> {
        self.with(corpus, |entry| {
            let rebuild = entry.rebuild.as_mut()?;
            if rebuild.rebuild.generation == generation {
                rebuild.rebuild.state = state;
                rebuild.copies.clear();
            }
            Some(())
        });
        Ok(())
    }
}
