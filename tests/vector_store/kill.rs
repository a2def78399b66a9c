//! `kill -9`: the test starts itself as a child that writes and reports, and kills it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::optimize::{fill, journal};
use super::*;

const DIR: &str = "RAGBUS_TEST_CHILD_DIR";

/// Runs a test of this binary as a child over a folder, kills it once it said `until`, and returns what it said.
fn killed_after(test: &str, dir: &Path, until: &str) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args([
            "--exact",
            test,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut said = Vec::new();
    for line in lines {
        let line = line.expect("text");
        let last = line.ends_with(until);
        said.push(line);
        if last {
            break;
        }
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(
        said.last().is_some_and(|line| line.ends_with(until)),
        "{said:?}"
    );
    said
}

fn child_dir() -> std::path::PathBuf {
    std::env::var_os(DIR).expect("started by the test").into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a child process of acknowledged_writes_survive_kill"]
async fn child_that_writes() {
    let store = open(EdgeConfig::new(child_dir()));
    let (at, dropped) = (place("c"), place("dropped"));
    for at in [&at, &dropped] {
        store.ensure(at, &schema()).await.expect("ensured");
    }
    store
        .upsert(&dropped, vec![wide_point("d", 0, 1, 8)])
        .await
        .expect("upserted");
    store.drop_generation(&dropped).await.expect("dropped");
    for number in 0.. {
        let name = format!("d{number}");
        store
            .upsert(&at, (0..4).map(|i| wide_point(&name, i, 1, 8)).collect())
            .await
            .expect("upserted");
        if number % 3 == 0 {
            store
                .delete_below(&at, &document(&name), 2)
                .await
                .expect("deleted");
        }
        println!("\nacked {number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kill() {
    let dir = tempfile::tempdir().expect("a folder");
    killed_after("edge::kill::child_that_writes", dir.path(), "acked 40");
    let store = open(EdgeConfig::new(dir.path()));
    let at = place("c");
    for number in 0..=40 {
        let read = store
            .document_chunks(&at, &document(&format!("d{number}")), 1)
            .await;
        let expected = if number % 3 == 0 { 0 } else { 4 };
        assert_eq!(read.expect("read").len(), expected, "document {number}");
    }
    assert!(
        store.ensure(&place("dropped"), &schema()).await.is_err(),
        "dropped for good"
    );
    // The log goes on where it ended: later writes take effect.
    store
        .upsert(&at, vec![wide_point("d1", 0, 2, 8)])
        .await
        .expect("upserted");
    assert_eq!(
        store
            .document_chunks(&at, &document("d1"), 2)
            .await
            .expect("read")
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a child process of writes_beside_an_optimisation_survive_kill"]
async fn child_that_optimises() {
    let dir = child_dir();
    let store = open(EdgeConfig {
        optimize_after: 8_000,
        ..EdgeConfig::new(&dir)
    });
    let at = place("c");
    fill(&store, &at, 8_000).await;
    // The engine builds the new segment there once the old ones are wrapped: from then on deletions stay in memory.
    let building = dir
        .join("collections")
        .join(&at.collection)
        .join("shard-1/temp_segments");
    while !journal(&dir, &at).exists() || !building.exists() || names(&building).is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let remove = async |name: &str| {
        assert_eq!(
            store
                .delete_below(&at, &document(name), 9)
                .await
                .expect("deleted"),
            8
        );
    };
    let put = async |name: &str, sequence| {
        let points = (0..8).map(|i| wide_point(name, i, sequence, 384)).collect();
        store.upsert(&at, points).await.expect("upserted");
    };
    remove("doc-1").await;
    put("doc-2", 2).await;
    remove("doc-3").await;
    put("doc-3", 3).await;
    println!("\nacked");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_beside_an_optimisation_survive_kill() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = place("c");
    killed_after("edge::kill::child_that_optimises", dir.path(), "acked");
    assert!(
        journal(dir.path(), &at).exists(),
        "killed while it was optimised"
    );
    let store = open(EdgeConfig::new(dir.path()));
    let chunks = async |name: &str, sequence| {
        let read = store.document_chunks(&at, &document(name), sequence).await;
        read.expect("read").len()
    };
    assert_eq!(chunks("doc-1", 1).await, 0, "deleted stays deleted");
    assert_eq!(
        (chunks("doc-2", 1).await, chunks("doc-2", 2).await),
        (0, 8),
        "replaced once"
    );
    assert_eq!(
        (chunks("doc-3", 1).await, chunks("doc-3", 3).await),
        (0, 8),
        "put again"
    );
    assert_eq!(store.count(&at).await.expect("counted"), 8_000 - 8);
    until(&store, "every point once", |stats| {
        stats.points == 8_000 - 8
    })
    .await;
    assert_eq!(
        store.stats().await.expect("stats")[0].copies,
        1,
        "repaired by a copy"
    );
}
