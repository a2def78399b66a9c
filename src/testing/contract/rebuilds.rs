//! The contract of `RebuildRegistry`, together with the documents it is about.
//!
//! Must not know an implementation.

use std::sync::Arc;
use std::time::Duration;

use super::registry::{corpus_of, document, hashes, job, models, put};
use crate::model::{CorpusRef, Finish, Hashes, ModelPair, Written};
use crate::spi::{
    Begun, DocumentRegistry, Rebuild, RebuildRegistry, RebuildState, Switch, Unbuilt,
};

/// One registry by its two ports.
#[derive(Debug, Clone)]
pub struct Both {
    /// Documents.
    pub documents: Arc<dyn DocumentRegistry>,
    /// Rebuilds.
    pub rebuilds: Arc<dyn RebuildRegistry>,
}

const LONG: Duration = Duration::from_secs(600);

fn others() -> ModelPair {
    ModelPair {
        dense: "dense-b".into(),
        sparse: "sparse-b".into(),
    }
}

impl Both {
    async fn put(&self, corpus: &CorpusRef, id: &str, s: u64) {
        let text = hashes(&format!("text {s}"), "m");
        put(&self.documents, corpus, id, s, &text, 2).await;
    }

    /// Step 1 of a put of this text.
    async fn begun(&self, corpus: &CorpusRef, id: &str, text: &Hashes, s: u64) -> Begun {
        let (id, models, job) = (document(id), models(), job(s));
        let begun = self
            .documents
            .begin_put(corpus, &id, text, &models, &job)
            .await;
        begun.expect("begins")
    }

    async fn delete(&self, corpus: &CorpusRef, id: &str, s: u64) -> Begun {
        let deleted = self
            .documents
            .begin_delete(corpus, &document(id), &job(s))
            .await;
        deleted.expect("deletes")
    }

    async fn begin(&self, corpus: &CorpusRef) -> Rebuild {
        let begun = self.rebuilds.begin_rebuild(corpus, &others()).await;
        begun.expect("begins").expect("a corpus")
    }

    async fn lease(&self, corpus: &CorpusRef, owner: &str, lease: Duration) -> Option<Rebuild> {
        let leased = self.rebuilds.lease_rebuild(corpus, owner, lease).await;
        leased.expect("leases")
    }

    async fn unbuilt(&self, corpus: &CorpusRef) -> Vec<Unbuilt> {
        let unbuilt = self.rebuilds.unbuilt(corpus, None, 100).await;
        unbuilt.expect("lists")
    }

    async fn begin_copies(&self, corpus: &CorpusRef, owner: &str, ids: &[&str]) -> bool {
        let ids: Vec<_> = ids.iter().map(|id| document(id)).collect();
        let begun = self.rebuilds.begin_copies(corpus, 2, owner, &ids).await;
        begun.expect("begins")
    }

    async fn copied(&self, corpus: &CorpusRef, id: &str, live: u64) {
        let ended = self
            .rebuilds
            .end_copy(corpus, 2, &document(id), live, 0)
            .await;
        ended.expect("ends");
    }

    async fn switch(&self, corpus: &CorpusRef, owner: &str) -> Switch {
        let switched = self
            .rebuilds
            .switch_rebuild(corpus, 2, owner, Duration::ZERO)
            .await;
        switched.expect("decides")
    }

    async fn state(&self, corpus: &CorpusRef) -> Option<RebuildState> {
        let found = self.rebuilds.rebuild(corpus).await.expect("reads");
        found.map(|(rebuild, _)| rebuild.state)
    }
}

/// One rebuild at a time, each into a generation that was never begun.
pub async fn a_rebuild_is_begun_once(both: Both) {
    let corpus = corpus_of("acme");
    let nothing = both.rebuilds.begin_rebuild(&corpus, &others()).await;
    assert_eq!(nothing.expect("begins"), None, "no such corpus");
    both.put(&corpus, "a", 5).await;
    let first = both.begin(&corpus).await;
    assert_eq!((first.generation, first.previous), (2, 1));
    assert_eq!(
        (first.state, &first.models),
        (RebuildState::Building, &others())
    );
    assert_eq!(both.begin(&corpus).await, first);
    let called_off = both.rebuilds.cancel_rebuild(&corpus).await.expect("fine");
    assert_eq!(called_off.map(|r| r.state), Some(RebuildState::Cancelling));
    assert_eq!(both.begin(&corpus).await.state, RebuildState::Cancelling);
    let cancelled = RebuildState::Cancelled;
    let ended = both.rebuilds.end_rebuild(&corpus, 2, cancelled).await;
    ended.expect("ends");
    assert_eq!(both.state(&corpus).await, Some(cancelled));
    assert_eq!(
        both.begin(&corpus).await.generation,
        3,
        "a dropped generation isn't used again"
    );
    let other = corpus_of("globex");
    let other = CorpusRef::new(other.tenant, corpus.corpus.clone());
    assert_eq!(both.state(&other).await, None);
}

/// What changes between copy and switch has to be copied again, tombstones too.
pub async fn only_copies_of_what_is_served_are_switched_to(both: Both) {
    let corpus = corpus_of("acme");
    for (id, s) in [("a", 5), ("b", 6), ("c", 7)] {
        both.put(&corpus, id, s).await;
    }
    both.delete(&corpus, "c", 8).await;
    both.begin(&corpus).await;
    assert_eq!(both.switch(&corpus, "w").await, Switch::Lost);
    both.lease(&corpus, "w", LONG).await.expect("leased");
    let lacking = both.unbuilt(&corpus).await;
    let shown: Vec<_> = lacking
        .iter()
        .map(|u| (u.document.as_str(), u.live, u.chunks))
        .collect();
    assert_eq!(shown, [("a", 5, 2), ("b", 6, 2)]);
    let page = both
        .rebuilds
        .unbuilt(&corpus, Some(&document("a")), 1)
        .await;
    assert_eq!(page.expect("lists")[0].document, document("b"));
    assert_eq!(both.switch(&corpus, "w").await, Switch::Behind(2));
    assert!(both.begin_copies(&corpus, "w", &["a", "b"]).await);
    both.copied(&corpus, "a", 5).await;
    let progress = both
        .rebuilds
        .rebuild(&corpus)
        .await
        .expect("reads")
        .expect("there")
        .1;
    assert_eq!((progress.documents, progress.built), (2, 1));
    both.put(&corpus, "a", 9).await;
    both.delete(&corpus, "b", 10).await;
    let lacking = both.unbuilt(&corpus).await;
    let shown: Vec<_> = lacking
        .iter()
        .map(|u| (u.document.as_str(), u.live, u.chunks))
        .collect();
    assert_eq!(
        shown,
        [("a", 9, 2), ("b", 10, 0)],
        "a begun copy of a tombstone has to go"
    );
    both.copied(&corpus, "a", 9).await;
    assert_eq!(both.switch(&corpus, "w").await, Switch::Behind(1));
    both.copied(&corpus, "b", 10).await;
    assert_eq!(both.switch(&corpus, "other").await, Switch::Lost);
    assert_eq!(both.switch(&corpus, "w").await, Switch::Switched);
    assert_eq!(both.state(&corpus).await, Some(RebuildState::Switched));
    assert_eq!(both.switch(&corpus, "w").await, Switch::Lost, "once");
}

/// After the switch jobs write the new generation with its models, and those that were writing the old one start again.
pub async fn jobs_notice_a_switch(both: Both) {
    let corpus = corpus_of("acme");
    both.put(&corpus, "a", 5).await;
    let text = hashes("b", "m");
    let open = both.begun(&corpus, "b", &text, 6).await;
    assert_eq!((open.generation, open.unserved), (1, false));
    assert_eq!(open.models, models());
    both.begin(&corpus).await;
    both.lease(&corpus, "w", LONG).await.expect("leased");
    assert!(both.begin_copies(&corpus, "w", &["a"]).await);
    both.copied(&corpus, "a", 5).await;
    assert_eq!(both.switch(&corpus, "w").await, Switch::Switched);
    let late = Written {
        generation: 1,
        hashes: text.clone(),
        chunks: 1,
        expires_at: None,
        metadata: Default::default(),
        result: job(6),
    };
    let late = both
        .documents
        .finish_put(&corpus, &document("b"), &late)
        .await;
    assert_eq!(late.expect("decides").finish, Finish::GenerationChanged);
    let again = both.begun(&corpus, "b", &text, 6).await;
    assert_eq!((again.generation, again.unserved), (2, true));
    assert_eq!(again.models, others());
    let built = both.documents.corpus_models(&corpus).await.expect("reads");
    assert_eq!(built, Some(others()));
    let retired = both.documents.retire_generation(&corpus, 4).await;
    assert_eq!(
        retired.expect("asked"),
        None,
        "readers may be in the old one"
    );
    let fenced = both
        .documents
        .fence_document(&corpus, &document("a"), 7)
        .await;
    assert!(fenced.expect("fences").expect("older").unserved);
    both.rebuilds.note_served(&corpus, 2).await.expect("noted");
    let deleted = both.delete(&corpus, "b", 8).await;
    assert_eq!((deleted.generation, deleted.unserved), (2, false));
    let found = both.rebuilds.rebuild(&corpus).await.expect("reads");
    assert!(found.expect("there").0.drop_due, "no grace was asked for");
    let ended = both
        .rebuilds
        .end_rebuild(&corpus, 2, RebuildState::Done)
        .await;
    ended.expect("ends");
    assert_eq!(both.lease(&corpus, "w", LONG).await, None, "over");
}

/// One worker at a time, until it says nothing for too long.
pub async fn a_rebuild_is_one_workers(both: Both) {
    let corpus = corpus_of("acme");
    both.put(&corpus, "a", 5).await;
    both.begin(&corpus).await;
    let free = |free: Vec<Rebuild>| free.iter().any(|rebuild| rebuild.corpus == corpus);
    let list = || async { both.rebuilds.free_rebuilds().await.expect("lists") };
    assert!(free(list().await));
    both.lease(&corpus, "w1", LONG).await.expect("leased");
    both.lease(&corpus, "w1", LONG).await.expect("held on to");
    assert_eq!(both.lease(&corpus, "w2", LONG).await, None);
    assert!(!free(list().await));
    assert!(!both.begin_copies(&corpus, "w2", &["a"]).await);
    both.rebuilds
        .release_rebuild(&corpus, "w2")
        .await
        .expect("nothing");
    assert_eq!(both.lease(&corpus, "w2", LONG).await, None);
    both.rebuilds
        .note_problem(&corpus, "w1", "no disk")
        .await
        .expect("noted");
    both.rebuilds
        .release_rebuild(&corpus, "w1")
        .await
        .expect("released");
    assert!(free(list().await));
    let taken = both
        .lease(&corpus, "w2", Duration::ZERO)
        .await
        .expect("leased");
    assert_eq!(taken.problem, "no disk");
    both.lease(&corpus, "w1", LONG)
        .await
        .expect("the other's has run out");
    assert!(
        !both
            .rebuilds
            .move_rebuild(&corpus, "w2", 5)
            .await
            .expect("asked")
    );
    assert!(both.begin_copies(&corpus, "w1", &["a"]).await);
    assert!(
        both.rebuilds
            .move_rebuild(&corpus, "w1", 5)
            .await
            .expect("asked")
    );
    assert!(
        !both.begin_copies(&corpus, "w1", &["a"]).await,
        "generation 2 isn't built any more"
    );
    both.copied(&corpus, "a", 5).await;
    assert_eq!(
        both.unbuilt(&corpus).await.len(),
        1,
        "copies start from the beginning"
    );
}

/// With the corpus its rebuild goes, and nothing is ever written into that generation.
pub async fn a_corpus_deletion_ends_the_rebuild(both: Both) {
    let corpus = corpus_of("acme");
    both.put(&corpus, "a", 5).await;
    both.begin(&corpus).await;
    both.lease(&corpus, "w", LONG).await.expect("leased");
    assert!(both.begin_copies(&corpus, "w", &["a"]).await);
    both.documents
        .raise_fence(&corpus, &job(9))
        .await
        .expect("fences");
    both.documents
        .fence_document(&corpus, &document("a"), 9)
        .await
        .expect("fences");
    let dropped = both
        .documents
        .retire_generation(&corpus, 9)
        .await
        .expect("retires");
    assert_eq!(dropped, Some(2), "the prepared generation goes too");
    assert_eq!(both.state(&corpus).await, None);
    assert_eq!(both.lease(&corpus, "w", LONG).await, None);
    assert!(!both.begin_copies(&corpus, "w", &["a"]).await);
    assert_eq!(both.switch(&corpus, "w").await, Switch::Lost);
    let text = hashes("a", "m");
    let next = both.begun(&corpus, "a", &text, 10).await;
    assert_eq!((next.generation, next.models), (3, models()));
}
