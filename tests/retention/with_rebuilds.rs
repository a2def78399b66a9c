//! Retention beside a rebuild.

use std::time::Duration;

use ragbus::model::RunOrder;
use ragbus::spi::{JobHorizon, RebuildState};

use crate::LONG;
use crate::world::{World, corpus, document};

/// A rebuild has begun a document's copy, which only its tombstone tells to remove.
pub async fn a_tombstone_waits_for_a_rebuild(world: World) {
    let c = corpus("a", "c");
    world.put(&c, "d1", 5, None).await;
    world.put(&c, "d2", 6, None).await;
    let models = world.documents.corpus_models(&c).await.expect("read");
    let models = models.expect("built");
    let begun = world.rebuilds.begin_rebuild(&c, &models).await;
    let generation = begun.expect("begun").expect("exists").generation;
    let leased = world.rebuilds.lease_rebuild(&c, "w", LONG).await;
    assert!(leased.expect("asked").is_some());
    let ids = [document("d1")];
    let copies = world.rebuilds.begin_copies(&c, generation, "w", &ids).await;
    assert!(copies.expect("asked"));
    world.delete(&c, "d1", 7).await;
    world.jobs.set(Some(JobHorizon {
        below: 100,
        replayable: Duration::ZERO,
    }));
    let run = world.run("tick", RunOrder::default()).await;
    assert_eq!(run.counts.tombstones, 0);
    let forgotten = world.registry.forget_tombstones(&c.tenant, 100).await;
    assert_eq!(forgotten.expect("asked"), 0);
    let unbuilt = world.rebuilds.unbuilt(&c, None, 10).await.expect("listed");
    assert!(
        unbuilt
            .iter()
            .any(|u| u.document == document("d1") && u.chunks == 0)
    );
    let over = RebuildState::Cancelled;
    world
        .rebuilds
        .end_rebuild(&c, generation, over)
        .await
        .expect("ended");
    let forgotten = world.registry.forget_tombstones(&c.tenant, 100).await;
    assert_eq!(forgotten.expect("asked"), 1);
}
