//! Collections: made once, as configured, compared, and gone when they were dropped.

use super::*;
use crate::qdrant_server::Collection;

const MARKS: &str = "ragbus_meta";
const CREATE: &str = "collections/create";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_workers_that_create_one_corpus_make_one_collection() {
    for strategy in [TenancyStrategy::Separate, TenancyStrategy::Shared] {
        let server = QdrantServer::start();
        let racing = (0..20).map(|_| {
            let desk = Desk::new(&store(&server, |_| ()), strategy, "acme", "docs");
            tokio::spawn(async move { desk.create().await })
        });
        for race in racing.collect::<Vec<_>>() {
            race.await.expect("no failure");
        }
        assert_eq!(
            server.engine().collections.len(),
            2,
            "the corpus' and the marks'"
        );
        assert!(server.calls(CREATE) > 2, "they did race");
    }
}

#[tokio::test]
async fn a_collection_that_cannot_be_read_at_once_is_waited_for() {
    let server = QdrantServer::start();
    let store = store(&server, |_| ());
    server.then(CREATE, Fault::Unanswered);
    server.then("collections/get", Fault::Fails(Code::Internal));
    server.then("collections/get", Fault::Fails(Code::NotFound));
    let desk = Desk::new(&store, TenancyStrategy::Separate, "acme", "docs");
    desk.create().await;
    assert_eq!(
        server.calls(CREATE),
        3,
        "the lost answer was asked for again"
    );
}

#[tokio::test]
async fn what_is_created_is_what_was_configured() {
    let server = QdrantServer::start();
    let store = store(&server, |config| {
        config.collection_prefix = "p_".into();
        config.shards = Some(3);
        config.replication_factor = Some(2);
        config.quantization = Quantization::Scalar;
        config.hnsw = HnswOptions {
            m: Some(24),
            payload_m: Some(16),
            ..Default::default()
        };
    });
    Desk::new(&store, TenancyStrategy::Shared, "acme", "docs")
        .create()
        .await;
    let engine = server.engine();
    let names: Vec<&String> = engine.collections.keys().collect();
    assert_eq!(names, ["p_rag_s_docs_g1", "p_ragbus_meta"]);
    let collection = &engine.collections["p_rag_s_docs_g1"];
    assert_eq!(collection.indexes, ["tenant", "document_id", "sequence"]);
    let created = &collection.created;
    assert_eq!(
        (created.shard_number, created.replication_factor),
        (Some(3), Some(2))
    );
    let hnsw = created.hnsw_config.as_ref().expect("set");
    assert_eq!(
        (hnsw.m, hnsw.payload_m, hnsw.ef_construct),
        (Some(24), Some(16), None)
    );
    assert!(created.quantization_config.is_some());
    assert_eq!(collection.modifier("bm25"), Some(qd::Modifier::Idf));
    assert_eq!(collection.modifier("sparse"), Some(qd::Modifier::None));
    let marks = &engine.collections["p_ragbus_meta"];
    assert_eq!(marks.indexes, ["tenant", "corpus", "live"]);
    assert_eq!(marks.created.replication_factor, Some(2));
}

#[tokio::test]
async fn a_collection_of_another_making_is_refused_and_left_alone() {
    let server = QdrantServer::start();
    let desk = Desk::new(
        &store(&server, |_| ()),
        TenancyStrategy::Separate,
        "acme",
        "docs",
    );
    let theirs = desk.generation(2);
    theirs.create().await;
    {
        let mut engine = server.engine();
        let mut foreign = engine
            .collections
            .remove(&theirs.at.collection)
            .expect("created");
        foreign.created.metadata.clear();
        engine
            .collections
            .insert(desk.at.collection.clone(), foreign);
    }
    let refused = desk.store.ensure(&desk.at, &schema()).await;
    failed(refused, ErrorKind::SchemaConflict);
    assert!(
        server
            .engine()
            .collections
            .contains_key(&desk.at.collection)
    );
}

#[tokio::test]
async fn a_collection_made_meanwhile_with_another_model_names_both() {
    let (_server, desk) = separate().await;
    // Another tenant's first call finds the collection of a shared corpus.
    let first = Desk::new(&desk.store, TenancyStrategy::Shared, "acme", "both");
    first.create().await;
    let second = first.of("other");
    let wanted = CollectionSchema {
        dense_model: "dense-b".into(),
        ..schema()
    };
    let refused = second.store.ensure(&second.at, &wanted).await;
    let error = failed(refused, ErrorKind::SchemaConflict);
    assert!(error.message().contains("dense-a") && error.message().contains("dense-b"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drop_in_the_middle_of_a_creation_wins() {
    let server = QdrantServer::start();
    let desk = Desk::new(
        &store(&server, |_| ()),
        TenancyStrategy::Separate,
        "acme",
        "docs",
    );
    server.then("points/create_field_index", Fault::Held);
    let creating = {
        let desk = desk.clone();
        tokio::spawn(async move { desk.store.ensure(&desk.at, &schema()).await })
    };
    server.until_called("points/create_field_index", 1).await;
    let other = store(&server, |_| ());
    // The collection as a creation that was a step behind would have made it after the drop.
    other.drop_generation(&desk.at).await.expect("dropped");
    server
        .engine()
        .collections
        .insert(desk.at.collection.clone(), Collection::default());
    server.release();
    failed(creating.await.expect("no panic"), ErrorKind::NotFound);
    assert!(
        !server
            .engine()
            .collections
            .contains_key(&desk.at.collection)
    );
    assert_eq!(
        other.describe(&desk.at.corpus).await.expect("described"),
        None
    );
}

#[tokio::test]
async fn a_lost_collection_is_told_and_not_made_anew() {
    let (server, desk) = separate().await;
    server.engine().collections.remove(&desk.at.collection);
    desk.create().await;
    let written = desk.store.upsert(&desk.at, points(&desk, 1)).await;
    failed(written, ErrorKind::NotFound);
    server.engine().collections.remove(MARKS);
    assert_eq!(
        desk.store
            .describe(&desk.at.corpus)
            .await
            .expect("described"),
        None
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_a_drop_overtakes_leaves_nothing() {
    let (server, desk) = corpus(TenancyStrategy::Shared).await;
    let calls = server.calls(UPSERT);
    server.then(UPSERT, Fault::Held);
    let writing = {
        let desk = desk.clone();
        tokio::spawn(async move { desk.store.upsert(&desk.at, points(&desk, 3)).await })
    };
    server.until_called(UPSERT, calls + 1).await;
    desk.store.drop_generation(&desk.at).await.expect("dropped");
    server.release();
    failed(writing.await.expect("no panic"), ErrorKind::NotFound);
    assert!(
        server.engine().collections[&desk.at.collection]
            .points
            .is_empty()
    );
}
