//! The contract of `DocumentRegistry`: each case takes the registry and uses corpora of its own.
//!
//! Must not know an implementation.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::model::{
    CorpusName, CorpusRef, Decision, DocumentId, Finish, Hashes, IngestResult, IngestStatus,
    Metadata, MetadataValue, ModelPair, TenantId, Timestamp, Written,
};
use crate::spi::DocumentRegistry;

type Registry = Arc<dyn DocumentRegistry>;

pub(super) fn models() -> ModelPair {
    ModelPair {
        dense: "dense-a".into(),
        sparse: "sparse-a".into(),
    }
}

pub(super) fn corpus_of(tenant: &str) -> CorpusRef {
    let name = format!("c{}", &Uuid::new_v4().simple().to_string()[..12]);
    CorpusRef::new(
        TenantId::mint(tenant).expect("valid"),
        CorpusName::new(&name).expect("valid"),
    )
}

pub(super) fn document(id: &str) -> DocumentId {
    DocumentId::new(id).expect("valid")
}

pub(super) fn hashes(content: &str, metadata: &str) -> Hashes {
    Hashes {
        content: content.into(),
        metadata: metadata.into(),
        pipeline: "p".into(),
    }
}

fn metadata() -> Metadata {
    let year = [("year".to_owned(), MetadataValue::Number(2020.5))];
    Metadata::new("metadata", year.into()).expect("valid")
}

pub(super) fn job(sequence: u64) -> IngestResult {
    IngestResult {
        job_id: format!("seq-{sequence}"),
        corpus: "c".into(),
        document_id: "d".into(),
        status: IngestStatus::Indexed,
        sequence,
        chunks: 0,
        chunks_deleted: 0,
        truncated_tokens: 3,
        warnings: vec!["a warning".into()],
        error: None,
        timings: BTreeMap::from([("embed".to_owned(), 1.5)]),
        attempt: 1,
    }
}

/// A put from step 1 to step 4; returns the result.
pub(super) async fn put(
    registry: &Registry,
    corpus: &CorpusRef,
    id: &str,
    s: u64,
    h: &Hashes,
    chunks: u32,
) -> IngestResult {
    let begun = registry
        .begin_put(corpus, &document(id), h, &models(), &job(s))
        .await
        .expect("begins");
    if let Decision::Finished(result) = begun.decision {
        return *result;
    }
    let written = Written {
        generation: begun.generation,
        hashes: h.clone(),
        chunks,
        expires_at: Some(Timestamp::from_micros(77)),
        metadata: metadata(),
        result: job(s),
    };
    match registry
        .finish_put(corpus, &document(id), &written)
        .await
        .expect("ends")
        .finish
    {
        Finish::Done(result) => *result,
        Finish::GenerationChanged => panic!("the generation did not change"),
    }
}

/// Puts end in every status that the rules know, and are listed.
pub async fn puts_follow_the_rules(registry: Registry) {
    let corpus = corpus_of("acme");
    let status = |r: IngestResult| r.status;
    let (a, a2, b) = (hashes("a", "m"), hashes("a", "m2"), hashes("b", "m"));
    assert_eq!(
        status(put(&registry, &corpus, "d", 5, &a, 4).await),
        IngestStatus::Indexed
    );
    assert_eq!(
        status(put(&registry, &corpus, "d", 6, &a, 4).await),
        IngestStatus::Unchanged
    );
    assert_eq!(
        status(put(&registry, &corpus, "d", 4, &b, 1).await),
        IngestStatus::Superseded
    );
    let begun = registry
        .begin_put(&corpus, &document("d"), &a2, &models(), &job(7))
        .await
        .expect("begins");
    assert_eq!((begun.decision, begun.live), (Decision::MetadataOnly, 5));
    let last = put(&registry, &corpus, "d", 8, &b, 1).await;
    assert_eq!(
        (last.status, last.chunks, last.chunks_deleted),
        (IngestStatus::Indexed, 1, 3)
    );
    let entry = registry
        .document(&corpus, &document("d"))
        .await
        .expect("reads")
        .expect("there");
    assert_eq!((entry.sequence, entry.live, entry.chunks), (8, 8, 1));
    assert_eq!(entry.expires_at, Some(Timestamp::from_micros(77)));
    assert_eq!(entry.metadata, metadata());
    assert!(entry.updated_at > Timestamp::from_micros(0));
}

/// A second delivery gets the stored result, every field of it.
pub async fn results_are_kept(registry: Registry) {
    let corpus = corpus_of("acme");
    let first = put(&registry, &corpus, "d", 5, &hashes("a", "m"), 2).await;
    let again = put(&registry, &corpus, "d", 5, &hashes("a", "m"), 2).await;
    assert_eq!(first, again);
    assert_eq!(first.warnings, ["a warning"]);
    let delete = |s| {
        let (registry, corpus) = (registry.clone(), corpus.clone());
        async move {
            let begun = registry
                .begin_delete(&corpus, &document("d"), &job(s))
                .await
                .expect("deletes");
            match begun.decision {
                Decision::Finished(result) => (*result, begun.live),
                Decision::MetadataOnly | Decision::Write => panic!("a delete is decided at once"),
            }
        }
    };
    let (deleted, live) = delete(6).await;
    assert_eq!(
        (deleted.status, deleted.chunks_deleted, live),
        (IngestStatus::Deleted, 2, 6)
    );
    assert_eq!(delete(6).await.0, deleted);
    assert_eq!(delete(5).await.0.status, IngestStatus::Superseded);
    assert!(
        registry
            .document(&corpus, &document("d"))
            .await
            .expect("reads")
            .is_none()
    );
}

/// A corpus deletion: fence, documents, generation; the same at every delivery.
pub async fn a_corpus_is_fenced(registry: Registry) {
    let corpus = corpus_of("acme");
    put(&registry, &corpus, "a", 5, &hashes("a", "m"), 2).await;
    put(&registry, &corpus, "b", 6, &hashes("b", "m"), 3).await;
    let fenced = registry
        .raise_fence(&corpus, &job(9))
        .await
        .expect("fences");
    assert_eq!(
        (fenced.result.status, fenced.result.chunks_deleted),
        (IngestStatus::Deleted, 5)
    );
    assert_eq!(
        put(&registry, &corpus, "c", 8, &hashes("c", "m"), 1)
            .await
            .status,
        IngestStatus::Superseded
    );
    let below = registry
        .documents_below(&corpus, 9, None, 2)
        .await
        .expect("lists");
    assert_eq!(below, [document("a"), document("b")]);
    let rest = registry
        .documents_below(&corpus, 9, Some(&document("b")), 2)
        .await
        .expect("lists");
    assert_eq!(rest, [document("c")]);
    assert_eq!(
        registry.retire_generation(&corpus, 9).await.expect("asks"),
        None,
        "documents live"
    );
    for id in ["a", "b", "c"] {
        let fenced = registry
            .fence_document(&corpus, &document(id), 9)
            .await
            .expect("fences");
        assert_eq!(
            fenced.map(|buried| (buried.live, buried.generation)),
            Some((9, 1))
        );
    }
    assert_eq!(
        registry
            .retire_generation(&corpus, 9)
            .await
            .expect("retires"),
        Some(1)
    );
    assert_eq!(
        registry.retire_generation(&corpus, 9).await.expect("again"),
        Some(1)
    );
    assert_eq!(
        registry
            .raise_fence(&corpus, &job(9))
            .await
            .expect("again")
            .result,
        fenced.result
    );
    assert!(
        registry
            .corpora(&corpus.tenant)
            .await
            .expect("lists")
            .iter()
            .all(|c| c.corpus != corpus.corpus)
    );
    put(&registry, &corpus, "a", 10, &hashes("a", "m"), 1).await;
    let entry = registry
        .document(&corpus, &document("a"))
        .await
        .expect("reads")
        .expect("there");
    assert_eq!(entry.generation, 2);
}

/// A newer put, also one that has only begun, keeps its generation; an older fence never lowers a newer one.
pub async fn newer_work_survives_a_corpus_deletion(registry: Registry) {
    let corpus = corpus_of("acme");
    put(&registry, &corpus, "a", 5, &hashes("a", "m"), 2).await;
    let newer = registry
        .begin_put(
            &corpus,
            &document("n"),
            &hashes("n", "m"),
            &models(),
            &job(20),
        )
        .await;
    assert_eq!(newer.expect("begins").decision, Decision::Write);
    registry
        .raise_fence(&corpus, &job(9))
        .await
        .expect("fences");
    registry
        .raise_fence(&corpus, &job(7))
        .await
        .expect("an older one");
    assert_eq!(
        put(&registry, &corpus, "b", 8, &hashes("b", "m"), 1)
            .await
            .status,
        IngestStatus::Superseded
    );
    assert_eq!(
        registry
            .fence_document(&corpus, &document("a"), 9)
            .await
            .expect("fences")
            .map(|buried| (buried.live, buried.generation)),
        Some((9, 1))
    );
    // The newer put has claimed a write but not finished: its row is still at sequence 0, and older than the fence.
    registry
        .fence_document(&corpus, &document("n"), 9)
        .await
        .expect("fences");
    registry
        .fence_document(&corpus, &document("b"), 9)
        .await
        .expect("fences");
    assert_eq!(
        registry.retire_generation(&corpus, 9).await.expect("asks"),
        None
    );
    assert_eq!(
        put(&registry, &corpus, "n", 20, &hashes("n", "m"), 1)
            .await
            .status,
        IngestStatus::Indexed
    );
}

/// A write for a generation that was retired under it starts again.
pub async fn a_retired_generation_is_noticed(registry: Registry) {
    let corpus = corpus_of("acme");
    let written = Written {
        generation: 7,
        hashes: hashes("a", "m"),
        chunks: 1,
        expires_at: None,
        metadata: Metadata::default(),
        result: job(5),
    };
    registry
        .begin_put(
            &corpus,
            &document("d"),
            &hashes("a", "m"),
            &models(),
            &job(5),
        )
        .await
        .expect("begins");
    let finished = registry
        .finish_put(&corpus, &document("d"), &written)
        .await
        .expect("asks");
    assert_eq!(finished.finish, Finish::GenerationChanged);
    assert!(
        registry
            .document(&corpus, &document("d"))
            .await
            .expect("reads")
            .is_none()
    );
}

/// Lists page by id, leave tombstones out, and never show another tenant's.
pub async fn lists_page_and_keep_tenants_apart(registry: Registry) {
    let corpus = corpus_of("acme");
    let foreign = CorpusRef::new(
        TenantId::mint("other").expect("valid"),
        corpus.corpus.clone(),
    );
    for (number, id) in ["a", "b", "c", "ä"].into_iter().enumerate() {
        put(
            &registry,
            &corpus,
            id,
            5 + number as u64,
            &hashes(id, "m"),
            1,
        )
        .await;
    }
    put(&registry, &foreign, "x", 50, &hashes("x", "m"), 9).await;
    registry
        .begin_delete(&corpus, &document("b"), &job(60))
        .await
        .expect("deletes");
    let ids = |entries: Vec<crate::spi::DocumentEntry>| {
        entries
            .into_iter()
            .map(|e| e.document_id.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    let first = registry.documents(&corpus, None, 2).await.expect("lists");
    assert_eq!(ids(first), ["a", "c"]);
    let second = registry
        .documents(&corpus, Some(&document("c")), 2)
        .await
        .expect("lists");
    assert_eq!(ids(second), ["ä"]);
    let listed = registry.corpora(&corpus.tenant).await.expect("lists");
    let entry = listed
        .iter()
        .find(|c| c.corpus == corpus.corpus)
        .expect("listed");
    assert_eq!(
        (entry.documents, entry.chunks, entry.dense_model.as_str()),
        (3, 3, "dense-a")
    );
    assert!(
        registry
            .document(&foreign, &document("a"))
            .await
            .expect("reads")
            .is_none()
    );
    let all = registry.all_corpora().await.expect("lists");
    assert!(
        all.iter().any(|(name, _)| *name == foreign) && all.iter().any(|(name, _)| *name == corpus)
    );
    assert!(registry.highest_sequence().await.expect("reads") >= 60);
}

/// A tenant's documents are counted over its corpora: no tombstones, no claims that did not finish, nobody else's.
pub async fn documents_of_a_tenant_are_counted(registry: Registry) {
    let name = format!("t{}", &Uuid::new_v4().simple().to_string()[..12]);
    let (one, two, foreign) = (corpus_of(&name), corpus_of(&name), corpus_of("other"));
    let count = || async { registry.document_count(&one.tenant).await.expect("counts") };
    assert_eq!(count().await, 0);
    put(&registry, &foreign, "x", 4, &hashes("x", "m"), 1).await;
    put(&registry, &one, "a", 5, &hashes("a", "m"), 2).await;
    put(&registry, &one, "empty", 6, &hashes("e", "m"), 0).await;
    put(&registry, &two, "a", 7, &hashes("a", "m"), 1).await;
    let begun = registry
        .begin_put(
            &two,
            &document("begun"),
            &hashes("b", "m"),
            &models(),
            &job(8),
        )
        .await;
    begun.expect("begins");
    assert_eq!(count().await, 3);
    put(&registry, &one, "a", 9, &hashes("b", "m"), 2).await;
    assert_eq!(count().await, 3, "a replacement is no new document");
    let deleted = registry.begin_delete(&one, &document("a"), &job(10)).await;
    deleted.expect("deletes");
    assert_eq!(count().await, 2);
    let fenced = registry.fence_document(&two, &document("a"), 11).await;
    fenced.expect("fences");
    assert_eq!(count().await, 1);
}

/// Many jobs of one document at once: the highest sequence wins.
pub async fn transactions_do_not_tear(registry: Registry) {
    let corpus = corpus_of("acme");
    let jobs = (1..=32u64).map(|s| {
        let (registry, corpus) = (registry.clone(), corpus.clone());
        tokio::spawn(async move {
            put(
                &registry,
                &corpus,
                "d",
                s,
                &hashes(&s.to_string(), "m"),
                s as u32,
            )
            .await
        })
    });
    for job in futures::future::join_all(jobs).await {
        job.expect("no panic");
    }
    let entry = registry
        .document(&corpus, &document("d"))
        .await
        .expect("reads")
        .expect("there");
    assert_eq!((entry.sequence, entry.live, entry.chunks), (32, 32, 32));
    registry.health().await.expect("healthy");
}

/// Starts that never ended in order are crashes; what is given back or ended is none.
pub async fn crashes_are_counted(registry: Registry) {
    let (tenant, other) = (corpus_of("acme").tenant, corpus_of("other").tenant);
    let job = u64::from(Uuid::new_v4().as_fields().0);
    let start = |tenant: &TenantId| {
        let (registry, tenant) = (registry.clone(), tenant.clone());
        async move { registry.job_started(&tenant, job).await.expect("counts") }
    };
    assert_eq!((start(&tenant).await, start(&tenant).await), (0, 1));
    registry
        .job_given_back(&tenant, job)
        .await
        .expect("gives back");
    registry
        .job_given_back(&tenant, job)
        .await
        .expect("gives back");
    registry
        .job_given_back(&tenant, job)
        .await
        .expect("never below none");
    assert_eq!((start(&tenant).await, start(&tenant).await), (0, 1));
    assert_eq!(start(&other).await, 0, "another tenant's job");
    registry.job_ended(&tenant, job).await.expect("ends");
    assert_eq!(start(&tenant).await, 0);
}
