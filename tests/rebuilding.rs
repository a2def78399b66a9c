//! Random schedules of a rebuild beside jobs and readers: workers die at any moment, writes land after their caller is gone.
//! At any time a reader sees all that is settled and nothing that is deleted; at the end the highest sequence of every
//! document stands in the new generation and the old one is gone.
//!
//! `RAGBUS_TEST_SEED` repeats one schedule.

#[path = "rebuilding/late_store.rs"]
mod late_store;
#[path = "rebuilding/world.rs"]
mod world;

use std::time::Duration;

use futures::future::join_all;
use ragbus::ingest::RebuildStatus;
use tokio::time::sleep;
use world::{DOCUMENTS, Work, World};

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("RAGBUS_TEST_SEED") {
        Ok(seed) => vec![seed.parse().expect("RAGBUS_TEST_SEED is a number")],
        Err(_) => (1..=count).collect(),
    }
}

fn random_work(world: &World, sequence: u64) -> Work {
    let chance = &world.chance;
    let document = chance.below(DOCUMENTS as u64) as usize;
    match chance.below(20) {
        0 if chance.below(4) == 0 => Work::DeleteCorpus,
        1..=7 => Work::Delete(document),
        _ => {
            let chunks = chance.below(4);
            let text = |chunk| format!("chunk {chunk} of version {sequence}");
            Work::Put(document, (0..chunks).map(text).collect())
        }
    }
}

/// Workers that rebuild; each lives for a while, then another takes its place.
async fn mortal_workers(world: World, name: char) {
    for life in 0.. {
        let worker = world.worker(format!("{name}{life}"));
        sleep(Duration::from_millis(100 + world.chance.below(1_900))).await;
        worker.abort();
        let _ = worker.await;
    }
}

async fn run(seed: u64) {
    let world = World::new(seed);
    world.fill().await;
    let first = DOCUMENTS as u64 + 1;
    let count = world.chance.below(40);
    let jobs = (first..first + count).map(|sequence| {
        let (world, work) = (world.clone(), random_work(&world, sequence));
        async move {
            world.chance.pause(900).await;
            world.job(sequence, work).await;
        }
    });
    let readers = async {
        loop {
            world.read(seed).await;
            world.chance.pause(8).await;
        }
    };
    let operator = async {
        world.chance.pause(300).await;
        world.begin().await;
        if world.chance.below(4) == 0 {
            world.chance.pause(300).await;
            world.cancel().await;
        }
    };
    let end = async {
        tokio::join!(join_all(jobs), operator);
        // Called off or overtaken by a deletion: asked for again, until every corpus is of the new models.
        loop {
            match world.begin().await {
                None | Some(RebuildStatus::Current) => break,
                Some(_) if world.is_over().await => break,
                Some(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::select! {
        () = readers => {}
        () = mortal_workers(world.clone(), 'a') => {}
        () = mortal_workers(world.clone(), 'b') => {}
        () = end => {}
    }
    // What was sent before the last abort lands.
    sleep(late_store::LIMIT).await;
    world.check_end(seed).await;
}

/// They mostly wait, so many run beside each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_schedule_ends_rebuilt_and_no_reader_ever_notices() {
    let worlds: Vec<_> = seeds(200)
        .into_iter()
        .map(|seed| tokio::spawn(run(seed)))
        .collect();
    for world in worlds {
        world.await.expect("a schedule holds");
    }
}
