//! Drives the real ingest code through random schedules: jobs in any order, delivered twice, interleaved at every step,
//! crashed at any step, with writes that land late. The end must be that of the highest sequence, whatever happened.
//!
//! `RAGBUS_TEST_SEED` repeats one schedule.

#[path = "schedules/driver.rs"]
mod driver;
#[path = "support/qdrant_server/mod.rs"]
#[allow(dead_code, unused_imports, reason = "other tests use its other faults")]
mod qdrant_server;
#[path = "schedules/world.rs"]
mod world;

use driver::{Rng, run};
use world::World;

/// Seeds to try: one when it is asked for.
fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("RAGBUS_TEST_SEED") {
        Ok(seed) => vec![seed.parse().expect("RAGBUS_TEST_SEED is a number")],
        Err(_) => (1..=count).collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_schedule_ends_with_the_highest_sequence_in_memory() {
    for seed in seeds(600) {
        let world = World::in_memory();
        run(&world, &mut Rng::new(seed), seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_schedule_ends_with_the_highest_sequence_on_the_real_stores() {
    for seed in seeds(40) {
        let (world, _keep) = World::on_disk().await;
        run(&world, &mut Rng::new(seed.wrapping_add(10_000)), seed).await;
        world.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_schedule_ends_with_the_highest_sequence_on_a_server() {
    for seed in seeds(40) {
        let world = World::on_a_server(seed);
        run(&world, &mut Rng::new(seed.wrapping_add(20_000)), seed).await;
    }
}

/// A driver that could not see a broken rule would prove nothing: without the late write's delay it must find one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unbounded_late_write_is_caught() {
    let mut caught = false;
    for seed in 1..=400 {
        let world = World::in_memory().with_unbounded_writes();
        let seen = tokio::spawn(async move {
            run(&world, &mut Rng::new(seed), seed).await;
        });
        caught |= seen.await.is_err();
        if caught {
            break;
        }
    }
    assert!(
        caught,
        "no schedule showed what an unbounded late write does"
    );
}
