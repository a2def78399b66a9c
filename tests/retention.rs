//! Retention on SQLite and Postgres: what goes, what stays, and that it is counted exactly, whoever dies.

#[path = "support/postgres.rs"]
#[allow(dead_code, reason = "other tests kill the server")]
mod postgres_server;
#[path = "retention/with_rebuilds.rs"]
mod with_rebuilds;
#[path = "retention/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ragbus::model::{
    AdminAct, RetentionWindows, RunOrder, RunState, TimeWindow, Timestamp, cutoff,
};
use ragbus::spi::{JobHorizon, Ledger};
use ragbus::testing::contract::tracker::busy_record;
use with_rebuilds::a_tombstone_waits_for_a_rebuild;
use world::{DAY, World, corpus, document, never, postgres, sqlite};

const LONG: Duration = Duration::from_secs(600);

macro_rules! on_both {
    ($($case:ident)*) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (world, _keep) = super::sqlite().await;
                super::$case(world).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (world, _keep) = super::postgres().await;
                super::$case(world).await;
            })*
        }
    };
}

on_both! {
    a_run_is_ordered_once_and_carried_out_by_one holds_and_acts_are_on_record what_has_expired_goes
    tombstones_go_when_no_job_can_meet_them windows_holds_and_the_cutoff_decide the_guard_refuses_and_says_what
    a_run_that_is_killed_is_resumed_and_counts_exactly a_tenant_is_forgotten_unless_it_is_held
    a_tombstone_waits_for_a_rebuild
}

async fn a_run_is_ordered_once_and_carried_out_by_one(world: World) {
    let registry = &world.registry;
    let order = RunOrder::default();
    let first = registry.order_run("tick@1", &order).await.expect("ordered");
    let again = registry.order_run("tick@1", &order).await.expect("ordered");
    assert_eq!(first, again, "a second delivery changes nothing");
    registry.order_run("tick@2", &order).await.expect("ordered");
    let taken = registry.take_run("w1", LONG).await.expect("taken");
    assert_eq!(taken.map(|run| run.key).as_deref(), Some("tick@1"));
    assert_eq!(
        registry.take_run("w2", LONG).await.expect("asked"),
        None,
        "one run at a time"
    );
    assert!(
        !registry
            .keep_run("tick@1", "w2", LONG)
            .await
            .expect("asked")
    );
    assert!(
        registry
            .keep_run("tick@1", "w1", Duration::ZERO)
            .await
            .expect("kept")
    );
    let taken = registry.take_run("w2", LONG).await.expect("taken");
    assert_eq!(
        taken.map(|run| run.key).as_deref(),
        Some("tick@1"),
        "the other fell silent"
    );
    registry
        .end_run("tick@1", "w1", RunState::Failed)
        .await
        .expect("nothing");
    registry.note_run("tick@1", "odd").await.expect("noted");
    registry.note_run("tick@1", "odd").await.expect("noted");
    registry
        .end_run("tick@1", "w2", RunState::Done)
        .await
        .expect("ended");
    let ended = registry.run("tick@1").await.expect("read").expect("there");
    assert_eq!(
        (ended.state, ended.notes),
        (RunState::Done, vec!["odd".to_owned()])
    );
    let taken = registry.take_run("w2", LONG).await.expect("taken");
    assert_eq!(taken.map(|run| run.key).as_deref(), Some("tick@2"));
    assert_eq!(registry.runs(10).await.expect("listed").len(), 2);
    let racing = (0..8).map(|worker| {
        let registry = registry.clone();
        tokio::spawn(async move { registry.take_run(&format!("r{worker}"), LONG).await })
    });
    let racing: Vec<_> = racing.collect();
    registry
        .end_run("tick@2", "w2", RunState::Done)
        .await
        .expect("ended");
    for racer in racing {
        racer.await.expect("no panic").expect("asked");
    }
}

async fn holds_and_acts_are_on_record(world: World) {
    let registry = &world.registry;
    let (a, b) = (corpus("a", "c"), corpus("b", "c"));
    let hold = world.hold(&a, Some("d1"), "h1").await;
    let listed = registry.holds(&a.tenant).await.expect("listed");
    assert_eq!(listed, std::slice::from_ref(&hold));
    assert!(registry.holds(&b.tenant).await.expect("listed").is_empty());
    let foreign = registry.release_hold(&b.tenant, "h1", "x").await;
    assert_eq!(foreign.expect("asked"), None, "not theirs");
    let released = registry.release_hold(&a.tenant, "h1", "x").await;
    assert_eq!(released.expect("released"), Some(hold.scope));
    let again = registry.release_hold(&a.tenant, "h1", "x").await;
    assert_eq!(again.expect("asked"), None);
    let act = |action: &str| AdminAct {
        action: action.to_owned(),
        actor: "someone".to_owned(),
        tenant: "a".to_owned(),
        corpus: String::new(),
        details: "{}".to_owned(),
    };
    for action in ["one", "two"] {
        registry.record_act(&act(action)).await.expect("recorded");
    }
    let acts = registry.acts("a", 10).await.expect("listed");
    let acts: Vec<_> = acts.into_iter().map(|(_, act)| act).collect();
    assert_eq!(acts, [act("two"), act("one")]);
    assert!(registry.acts("b", 10).await.expect("listed").is_empty());
}

async fn what_has_expired_goes(world: World) {
    let now = world.now().await;
    let c = corpus("a", "c");
    let at = |micros: i64| Some(Timestamp::from_micros(now + micros));
    world.put(&c, "gone", 5, at(-1)).await;
    world.put(&c, "held", 6, at(-1)).await;
    world.put(&c, "later", 7, at(DAY)).await;
    world.put(&c, "for ever", 8, None).await;
    world.hold(&c, Some("held"), "h").await;
    let ended = world.run("tick", RunOrder::default()).await;
    assert_eq!((ended.state, ended.counts.expired), (RunState::Done, 1));
    assert_eq!(world.chunks(&c, "gone").await, 0);
    for kept in ["held", "later", "for ever"] {
        assert_eq!(world.chunks(&c, kept).await, 1, "{kept}");
    }
    world
        .registry
        .release_hold(&c.tenant, "h", "x")
        .await
        .expect("released");
    assert_eq!(
        world
            .run("tick 2", RunOrder::default())
            .await
            .counts
            .expired,
        1
    );
    assert_eq!(world.chunks(&c, "held").await, 0);
    assert_eq!(world.points(&c).await, 2, "their points are gone too");
    world.put(&c, "gone", 9, None).await;
    assert_eq!(world.chunks(&c, "gone").await, 1, "it may come back");

    // Buried, and then the worker died before it cleaned up.
    world.put(&c, "cut off", 10, at(-1)).await;
    world
        .registry
        .order_run("cut", &RunOrder::default())
        .await
        .expect("ordered");
    let moment = Timestamp::from_micros(world.now().await);
    let ledger = Ledger { run: "cut".into() };
    let buried = world
        .registry
        .expire(&c, &document("cut off"), moment, &ledger)
        .await;
    assert!(buried.expect("buried").is_some());
    assert_eq!(world.points(&c).await, 4);
    let ended = world.run("cut", RunOrder::default()).await;
    assert_eq!(ended.counts.expired, 1, "counted once");
    assert_eq!(world.points(&c).await, 3);
}

async fn tombstones_go_when_no_job_can_meet_them(world: World) {
    let c = corpus("a", "c");
    world.put(&c, "alive", 5, None).await;
    for (id, s) in [("old", 6), ("new", 9)] {
        world.put(&c, id, s, None).await;
        world.delete(&c, id, s + 1).await;
    }
    let horizon = |below, replayable| Some(JobHorizon { below, replayable });
    world.jobs.set(horizon(9, LONG));
    let run = world.run("young", RunOrder::default()).await;
    assert_eq!(run.counts.tombstones, 0, "a dead letter could be replayed");
    world.jobs.set(None);
    assert_eq!(
        world
            .run("unknown", RunOrder::default())
            .await
            .counts
            .tombstones,
        0
    );
    world.jobs.set(horizon(9, Duration::ZERO));
    let run = world.run("old", RunOrder::default()).await;
    assert_eq!((run.state, run.counts.tombstones), (RunState::Done, 1));
    assert_eq!(world.chunks(&c, "alive").await, 1);
    world.jobs.set(horizon(100, Duration::ZERO));
    assert_eq!(
        world
            .run("all", RunOrder::default())
            .await
            .counts
            .tombstones,
        1
    );
}

async fn windows_holds_and_the_cutoff_decide(mut world: World) {
    world.windows = RetentionWindows {
        days: 90,
        own: BTreeMap::from([
            (("short".into(), None), 10),
            (("short".into(), Some("own".into())), 40),
        ]),
        min_days: 1,
    };
    world.max_share = 1.0;
    let run = world
        .registry
        .order_run("tick", &RunOrder::default())
        .await
        .expect("ordered");
    let before = |days| cutoff(run.ordered_at, days).as_micros();
    let all = [
        corpus("long", "c"),
        corpus("short", "c"),
        corpus("short", "own"),
        corpus("kept", "c"),
    ];
    for (corpus, days) in all.iter().zip([90, 10, 40, 90]) {
        let strictly = [before(days) - 1, before(days), before(days) + 1];
        world.retrievals(corpus, &strictly).await;
    }
    world.hold(&all[3], None, "h").await;
    // One document of the corpus is evidence: the retrieval that returned it stays, the other goes.
    let mut of_another = busy_record(&all[0], before(90) - 50, 10_000);
    of_another.chunks[0].document_id = document("evidence");
    world.tracker.record(&[of_another]).await.expect("stored");
    world.hold(&all[0], Some("evidence"), "h").await;
    let run = world.run("tick", RunOrder::default()).await;
    assert_eq!(run.state, RunState::Done, "{:?}", run.notes);
    assert_eq!(run.counts.tracking.retrievals, 3);
    assert_eq!(run.counts.tracking.chunks, 30);
    for (corpus, left) in all.iter().zip([3, 2, 2, 3]) {
        assert_eq!(world.left(corpus).await, left, "{corpus:?}");
    }
    assert!(
        run.notes
            .iter()
            .any(|note| note == "kept/c: kept by a legal hold")
    );
    assert!(
        run.notes
            .iter()
            .any(|note| note == "long/c: a legal hold keeps 1")
    );
}

async fn the_guard_refuses_and_says_what(mut world: World) {
    let c = corpus("a", "c");
    let now = world.now().await;
    let times: Vec<i64> = (0..10).map(|n| now - n * 20 * DAY - 1).collect();
    world.retrievals(&c, &times).await;
    world
        .put(&c, "gone", 5, Some(Timestamp::from_micros(now - 1)))
        .await;
    world.windows.days = 60;
    let refused = world.run("too much", RunOrder::default()).await;
    assert_eq!(
        (refused.state, refused.counts.tracking.retrievals),
        (RunState::Refused, 0)
    );
    assert_eq!(
        refused.counts.expired, 1,
        "what has expired goes all the same"
    );
    let told =
        "refused: 7 of 10 retrievals would have been removed, more than retention.max_share = 0.5";
    assert_eq!(refused.notes, [told]);
    world.windows.days = 0;
    let refused = world.run("days = 0", RunOrder::default()).await;
    assert_eq!(
        (refused.state, world.left(&c).await),
        (RunState::Refused, 10)
    );
    assert!(refused.notes[0].contains("10 of 10"), "{:?}", refused.notes);
    let by_hand = |days, force| RunOrder {
        tenant: Some(c.tenant.clone()),
        days: Some(days),
        force,
        ..RunOrder::default()
    };
    let forecast = world
        .retention("w")
        .forecast(&by_hand(150, false))
        .await
        .expect("told");
    assert_eq!((forecast.removed(), forecast.total()), (2, 10));
    assert_eq!(world.left(&c).await, 10, "a forecast removes nothing");
    assert_eq!(
        world
            .run("some", by_hand(150, false))
            .await
            .counts
            .tracking
            .retrievals,
        2
    );
    assert_eq!(
        world.run("again", by_hand(0, false)).await.state,
        RunState::Refused
    );
    world.hold(&c, None, "h").await;
    assert_eq!(
        world
            .run("held", by_hand(0, true))
            .await
            .counts
            .tracking
            .retrievals,
        0
    );
    world
        .registry
        .release_hold(&c.tenant, "h", "x")
        .await
        .expect("released");
    let forced = world.run("forced", by_hand(0, true)).await;
    assert_eq!(
        (forced.state, forced.counts.tracking.retrievals),
        (RunState::Done, 8)
    );
    assert_eq!(world.registry.acts("a", 10).await.expect("listed").len(), 4);
}

async fn a_run_that_is_killed_is_resumed_and_counts_exactly(mut world: World) {
    world.max_share = 1.0;
    world.batch = 7;
    let c = corpus("a", "c");
    let now = world.now().await;
    let old: Vec<i64> = (0..100).map(|n| now - 100 * DAY - n).collect();
    world.retrievals(&c, &old).await;
    world.retrievals(&c, &[now - DAY]).await;
    world
        .registry
        .order_run("tick", &RunOrder::default())
        .await
        .expect("ordered");
    for life in 0..4 {
        let owner = format!("w{life}");
        let looks = AtomicU32::new(0);
        let dies = || looks.fetch_add(1, Ordering::Relaxed) > 3;
        let left = world.retention(&owner).work(&dies).await.expect("works");
        assert!(left.is_empty(), "it died before the end");
        // What it held runs out.
        world
            .registry
            .keep_run("tick", &owner, Duration::ZERO)
            .await
            .expect("let go");
    }
    let halfway = world
        .registry
        .run("tick")
        .await
        .expect("read")
        .expect("there");
    let removed = halfway.counts.tracking.retrievals;
    assert!(removed > 0 && removed < 100, "{removed}");
    assert_eq!(
        removed + world.left(&c).await as u64,
        101,
        "counted with what they count"
    );
    let ended = world.retention("last").work(&never).await.expect("works");
    let (run, state) = &ended[0];
    assert_eq!(
        (*state, run.counts.tracking.retrievals),
        (RunState::Done, 100)
    );
    assert_eq!(run.counts.tracking.chunks, 1_000);
    assert_eq!(world.left(&c).await, 1);
    assert_eq!(
        world
            .tracker
            .retrieved_documents(&c, TimeWindow::ALL, None, 100)
            .await
            .expect("listed")
            .len(),
        7
    );
}

async fn a_tenant_is_forgotten_unless_it_is_held(world: World) {
    let (a, b) = (corpus("a", "c"), corpus("b", "c"));
    for corpus in [&a, &b] {
        world.put(corpus, "d1", 5, None).await;
        world.put(corpus, "d2", 6, None).await;
        world.retrievals(corpus, &[1, 2, 3]).await;
    }
    world.delete(&a, "d2", 7).await;
    world.hold(&a, Some("d1"), "h").await;
    let refused = world.forgetter().forget(&a.tenant, 10).await;
    assert_eq!(refused.expect_err("held").field(), Some("tenant"));
    assert_eq!(world.chunks(&a, "d1").await, 1);
    world
        .registry
        .release_hold(&a.tenant, "h", "x")
        .await
        .expect("released");
    let forgotten = world
        .forgetter()
        .forget(&a.tenant, 10)
        .await
        .expect("forgotten");
    assert_eq!(
        (forgotten.corpora, forgotten.documents, forgotten.chunks),
        (1, 1, 1)
    );
    assert_eq!(
        (forgotten.tombstones, forgotten.tracking.retrievals),
        (2, 3)
    );
    assert_eq!((world.points(&a).await, world.left(&a).await), (0, 0));
    assert_eq!(
        (world.points(&b).await, world.left(&b).await),
        (2, 3),
        "nobody else's"
    );
    let late = world.put_anyway(&a, "d1", 9).await;
    assert_eq!(
        late, "Superseded",
        "a job that was on its way finds the fence"
    );
    world.put(&a, "d1", 11, None).await;
    assert_eq!(world.chunks(&a, "d1").await, 1, "a new one is welcome");
    let again = world
        .forgetter()
        .forget(&a.tenant, 12)
        .await
        .expect("forgotten");
    assert_eq!((again.documents, again.tracking.retrievals), (1, 0));
}
