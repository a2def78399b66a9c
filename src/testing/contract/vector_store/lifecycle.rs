//! Collections: created, described, compared, switched, dropped; the store: healthy, closed.

use std::sync::Arc;

use super::fixture::{Desk, desks, fresh_name, schema};
use crate::error::ErrorKind;
use crate::model::CollectionSchema;
use crate::spi::{HybridQuery, VectorStore};
use crate::tenancy::TenancyStrategy;

/// `describe` says nothing of what doesn't exist, and `ensure` may be called again and in a race.
pub async fn creation_is_idempotent(store: Arc<dyn VectorStore>) {
    for strategy in [TenancyStrategy::Separate, TenancyStrategy::Shared] {
        let desk = Desk::new(&store, strategy, "acme", &fresh_name());
        assert_eq!(
            store.describe(&desk.at.corpus).await.expect("described"),
            None
        );
        let racing = (0..8).map(|_| {
            let desk = desk.clone();
            tokio::spawn(async move { desk.create().await })
        });
        for race in racing.collect::<Vec<_>>() {
            race.await.expect("no panic");
        }
        desk.upsert(vec![desk.point("d", 0, 1)]).await;
        desk.create().await;
        let info = store
            .describe(&desk.at.corpus)
            .await
            .expect("described")
            .expect("exists");
        assert_eq!((info.generation, info.schema), (1, schema()));
        assert_eq!(desk.count().await, 1, "ensure keeps what is stored");
        let stranger = desk.of("stranger");
        assert_eq!(
            store
                .describe(&stranger.at.corpus)
                .await
                .expect("described"),
            None
        );
    }
    store.health().await.expect("healthy");
}

/// Another schema is refused and both values are named.
pub async fn schemas_are_compared(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let others = [
            (
                CollectionSchema {
                    dense_model: "dense-b".into(),
                    ..schema()
                },
                "dense-a",
                "dense-b",
            ),
            (
                CollectionSchema {
                    sparse_model: "sparse-b".into(),
                    ..schema()
                },
                "sparse-a",
                "sparse-b",
            ),
            (
                CollectionSchema {
                    dimension: 9,
                    ..schema()
                },
                "8",
                "9",
            ),
            (
                CollectionSchema {
                    version: 77,
                    ..schema()
                },
                "2",
                "77",
            ),
            (
                CollectionSchema {
                    lexical: "lexical-b".into(),
                    ..schema()
                },
                "lexical-a",
                "lexical-b",
            ),
        ];
        for (other, stored, wanted) in others {
            let error = store.ensure(&desk.at, &other).await.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::SchemaConflict);
            assert!(error.message().contains(stored) && error.message().contains(wanted));
        }
        let info = store
            .describe(&desk.at.corpus)
            .await
            .expect("described")
            .expect("exists");
        assert_eq!(info.schema, schema(), "nothing changed");
    }
}

/// Without a collection: `NotFound` for upsert and query, nothing for the rest.
pub async fn a_missing_collection_is_told(store: Arc<dyn VectorStore>) {
    for strategy in [TenancyStrategy::Separate, TenancyStrategy::Shared] {
        let desk = Desk::new(&store, strategy, "acme", &fresh_name());
        expect_gone(&desk).await;
        // Another tenant's collection of the same corpus is not ours.
        desk.of("other").create().await;
        expect_gone(&desk).await;
        assert_eq!(
            store.describe(&desk.at.corpus).await.expect("described"),
            None
        );
    }
}

async fn expect_gone(desk: &Desk) {
    let point = desk.point("d", 0, 1);
    let (store, at, document) = (&desk.store, &desk.at, point.stored.document_id.clone());
    let id = point.stored.id;
    let query = HybridQuery {
        legs: vec![],
        filter: None,
        fusion: None,
        rank_legs: true,
    };
    let error = store.upsert(at, vec![point]).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = store.query(at, &query).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(store.delete_below(at, &document, 9).await.expect("fine"), 0);
    assert_eq!(
        store.document_chunks(at, &document, 1).await.expect("fine"),
        vec![]
    );
    assert_eq!(store.points(at, &[id]).await.expect("fine"), vec![]);
    assert_eq!(desk.count().await, 0);
}

/// After a drop the corpus is gone for its tenant, for good; dropping again is fine; others keep theirs.
pub async fn a_dropped_generation_stays_dropped(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let other = desk.of("other");
        other.create().await;
        other.upsert(vec![other.point("d", 0, 1)]).await;
        desk.upsert((0..5).map(|i| desk.point("d", i, 1)).collect())
            .await;
        for _ in 0..2 {
            store.drop_generation(&desk.at).await.expect("dropped");
            assert_eq!(
                store.describe(&desk.at.corpus).await.expect("described"),
                None
            );
            expect_gone(&desk).await;
            let error = store
                .ensure(&desk.at, &schema())
                .await
                .expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
        assert_eq!(other.count().await, 1);
        let next = desk.generation(2);
        next.create().await;
        assert_eq!(next.count().await, 0, "nothing comes back");
        let never = Desk::new(&store, desk.strategy, "acme", &fresh_name());
        store.drop_generation(&never.at).await.expect("dropped");
        assert!(
            store.ensure(&never.at, &schema()).await.is_err(),
            "dropped before it was created"
        );
    }
}

/// The newest ensured generation is served; the old one works until it is dropped.
pub async fn generations_are_switched(store: Arc<dyn VectorStore>) {
    for first in desks(&store).await {
        let second = first.generation(2);
        first.upsert(vec![first.point("d", 0, 1)]).await;
        let other_model = CollectionSchema {
            dense_model: "dense-b".into(),
            ..schema()
        };
        store
            .ensure(&second.at, &other_model)
            .await
            .expect("ensured");
        first.create().await;
        let info = store
            .describe(&first.at.corpus)
            .await
            .expect("described")
            .expect("exists");
        assert_eq!((info.generation, info.schema), (2, other_model.clone()));
        second
            .upsert(vec![second.point("d", 0, 2), second.point("d", 1, 2)])
            .await;
        assert_eq!((first.count().await, second.count().await), (1, 2));
        store.drop_generation(&first.at).await.expect("dropped");
        let info = store
            .describe(&first.at.corpus)
            .await
            .expect("described")
            .expect("exists");
        assert_eq!(info.generation, 2);
        assert_eq!((first.count().await, second.count().await), (0, 2));
    }
}

/// A prepared generation is written beside the served one and seen by nobody until it is served, once and for good.
pub async fn a_prepared_generation_is_not_served(store: Arc<dyn VectorStore>) {
    for first in desks(&store).await {
        let second = first.generation(2);
        let served = || async {
            let info = store.describe(&first.at.corpus).await.expect("described");
            info.expect("exists").generation
        };
        first.upsert(vec![first.point("d", 0, 1)]).await;
        let error = store.serve(&second.at).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotFound, "never prepared");
        for _ in 0..2 {
            store.prepare(&second.at, &schema()).await.expect("fine");
        }
        let other = CollectionSchema {
            dense_model: "dense-b".into(),
            ..schema()
        };
        let error = store.prepare(&second.at, &other).await;
        assert_eq!(
            error.expect_err("refused").kind(),
            ErrorKind::SchemaConflict
        );
        second.upsert(vec![second.point("d", 0, 2)]).await;
        assert_eq!((served().await, second.count().await), (1, 1));
        for _ in 0..2 {
            store.serve(&second.at).await.expect("served");
            assert_eq!(served().await, 2);
        }
        store.prepare(&second.at, &schema()).await.expect("fine");
        assert_eq!(served().await, 2, "what is served stays served");
        store.drop_generation(&first.at).await.expect("dropped");
        assert_eq!((served().await, second.count().await), (2, 1));
        let third = first.generation(3);
        store.prepare(&third.at, &schema()).await.expect("prepared");
        store.ensure(&third.at, &schema()).await.expect("ensured");
        assert_eq!(served().await, 3, "ensuring serves");
        let fourth = first.generation(4);
        store
            .prepare(&fourth.at, &schema())
            .await
            .expect("prepared");
        store.drop_generation(&fourth.at).await.expect("dropped");
        for error in [
            store.serve(&fourth.at).await,
            store.prepare(&fourth.at, &schema()).await,
        ] {
            assert_eq!(error.expect_err("refused").kind(), ErrorKind::NotFound);
        }
        assert_eq!(served().await, 3);
    }
}

/// `close` may be called twice; afterwards everything is refused. Takes a store of its own.
pub async fn a_closed_store_refuses(store: Arc<dyn VectorStore>) {
    let desk = desks(&store).await.remove(0);
    desk.upsert(vec![desk.point("d", 0, 1)]).await;
    store.close().await.expect("closed");
    store.close().await.expect("closed again");
    let point = desk.point("d", 1, 1);
    let document = point.stored.document_id.clone();
    let query = HybridQuery {
        legs: vec![],
        filter: None,
        fusion: None,
        rank_legs: true,
    };
    assert!(store.health().await.is_err());
    assert!(store.describe(&desk.at.corpus).await.is_err());
    assert!(store.ensure(&desk.at, &schema()).await.is_err());
    assert!(store.prepare(&desk.at, &schema()).await.is_err());
    assert!(store.serve(&desk.at).await.is_err());
    assert!(store.upsert(&desk.at, vec![point]).await.is_err());
    assert!(store.delete_below(&desk.at, &document, 9).await.is_err());
    assert!(store.drop_generation(&desk.at).await.is_err());
    assert!(store.query(&desk.at, &query).await.is_err());
    assert!(store.document_chunks(&desk.at, &document, 1).await.is_err());
    assert!(store.points(&desk.at, &[]).await.is_err());
    assert!(store.count(&desk.at).await.is_err());
}
