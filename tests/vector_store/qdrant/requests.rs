//! What is sent: one call for a query, bounded batches, the key; and what is never sent.

use super::*;

#[tokio::test]
async fn a_query_is_one_call_with_filters_everywhere() {
    let (server, desk) = separate().await;
    desk.upsert(points(&desk, 3)).await;
    desk.store
        .query(&desk.at, &hybrid(false))
        .await
        .expect("answered");
    assert_eq!(
        (
            server.calls("points/query"),
            server.calls("points/query_batch")
        ),
        (1, 0)
    );
    let query = server.engine().queries.remove(0);
    let Some(qd::query::Variant::Rrf(rrf)) = query.query.and_then(|query| query.variant) else {
        panic!("fused on the server");
    };
    assert_eq!((rrf.k, rrf.weights.len()), (Some(61), 0));
    assert_eq!(query.limit, Some(21), "as many as the legs can give");
    assert!(query.filter.is_some() && query.prefetch.len() == 3);
    assert!(
        query
            .prefetch
            .iter()
            .all(|prefetch| prefetch.filter == query.filter)
    );
    let answer = desk
        .store
        .query(&desk.at, &hybrid(true))
        .await
        .expect("answered");
    assert_eq!(
        (
            server.calls("points/query"),
            server.calls("points/query_batch")
        ),
        (1, 1)
    );
    assert_eq!((answer.fused.len(), answer.legs.len()), (3, 3));
}

#[tokio::test]
async fn upserts_are_cut_by_points_and_by_bytes() {
    let server = QdrantServer::start();
    let desk = Desk::new(
        &store(&server, |config| {
            config.upsert_points = 4;
            config.upsert_bytes = 100_000;
        }),
        TenancyStrategy::Separate,
        "acme",
        "docs",
    );
    desk.create().await;
    server.engine().upserts.clear();
    let mut batch = points(&desk, 10);
    batch[9].stored.chunk.content = "x".repeat(5_000_000);
    desk.upsert(batch).await;
    assert_eq!(server.engine().upserts.iter().sum::<usize>(), 10);
    assert!(server.engine().upserts.len() >= 4 && server.engine().upserts.contains(&1));
    assert!(server.engine().upserts.iter().all(|points| *points <= 4));
    assert_eq!(desk.count().await, 10);
}

#[tokio::test]
async fn word_statistics_stay_inside_a_tenant() {
    let (_server, desk) = corpus(TenancyStrategy::Shared).await;
    let word = |desk: &Desk, ordinal, index| {
        let mut point = desk.point("d", ordinal, 1);
        point.vectors.bm25 = SparseVector {
            indices: vec![index],
            values: vec![1.0],
        };
        point
    };
    desk.upsert(
        (0..10)
            .map(|i| word(&desk, i, if i == 3 { 6 } else { 5 }))
            .collect(),
    )
    .await;
    let query = HybridQuery {
        legs: vec![leg(Leg::Bm25, term(6))],
        filter: None,
        fusion: None,
        rank_legs: true,
    };
    let ask = async || {
        let answer = desk.store.query(&desk.at, &query).await.expect("answered");
        answer.legs[0][0].score
    };
    let before = ask().await;
    let other = desk.of("other");
    other.create().await;
    other
        .upsert((0..50).map(|i| word(&other, i, 6)).collect())
        .await;
    assert!(
        (ask().await - before).abs() < 1e-6,
        "another tenant's words don't show"
    );
}

#[tokio::test]
async fn an_older_server_gets_no_lexical_query_on_shared_collections() {
    let server = QdrantServer::of_version("1.18.3");
    let store = store(&server, |_| ());
    let desk = Desk::new(&store, TenancyStrategy::Shared, "acme", "docs");
    desk.create().await;
    let asked = store.query(&desk.at, &hybrid(false)).await;
    assert_eq!(
        failed(asked, ErrorKind::InvalidField).field(),
        Some("retrieval.legs")
    );
    let mut query = hybrid(false);
    query.legs.pop();
    store
        .query(&desk.at, &query)
        .await
        .expect("the others are fine");
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    let server = QdrantServer::with_key("s3cret");
    let with = |key: Option<&str>| {
        store(&server, |config| {
            config.api_key = key.map(str::to_owned);
            config.timeout = SHORTEST;
        })
    };
    let right = with(Some("s3cret"));
    assert!(!format!("{right:?}").contains("s3cret"));
    let desk = Desk::new(&right, TenancyStrategy::Separate, "acme", "docs");
    desk.create().await;
    for key in [None, Some("wrong")] {
        let refused = with(key).describe(&desk.at.corpus).await;
        failed(refused, ErrorKind::DependencyFailed);
    }
    let refused = with(Some("wrong")).count(&desk.at).await;
    failed(refused, ErrorKind::DependencyFailed);
}

#[tokio::test]
async fn https_is_not_tried_without_tls() {
    let server = QdrantServer::start();
    let secure = store(&server, |config| {
        config.url = config.url.replace("http:", "https:");
        config.timeout = SHORTEST;
    });
    failed(secure.health().await, ErrorKind::DependencyFailed);
    assert_eq!(server.calls("health_check"), 0);
}

#[tokio::test]
async fn unusable_settings_and_absent_servers_are_told() {
    let refused = QdrantVectorStore::new(QdrantConfig::new("no address at all"));
    failed(refused, ErrorKind::InvalidField);
    let mut config = QdrantConfig::new("http://127.0.0.1:9");
    config.api_key = Some("private\nkey".into());
    failed(
        QdrantVectorStore::new(config.clone()),
        ErrorKind::InvalidField,
    );
    config.api_key = None;
    config.timeout = Duration::from_secs(1);
    failed(
        QdrantVectorStore::new(config.clone()),
        ErrorKind::InvalidField,
    );
    config.timeout = SHORTEST;
    let store = QdrantVectorStore::new(config).expect("not asked yet");
    failed(store.health().await, ErrorKind::DependencyFailed);
}
