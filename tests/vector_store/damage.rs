//! Damaged files and a panicking engine: named, mended or contained, never spread.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_created_collections_are_made_anew_and_corrupt_files_are_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let (half, corrupt, alias) = (place("half"), place("corrupt"), place("alias"));
    let (lost, vanished) = (place("lost"), place("vanished"));
    let store = open(EdgeConfig::new(dir.path()));
    for at in [&half, &corrupt, &alias, &lost, &vanished] {
        store.ensure(at, &schema()).await.expect("ensured");
    }
    store.close().await.expect("closed");
    let collections = dir.path().join("collections");
    let aliases = dir.path().join("aliases/acme");
    // Killed while it was created: no alias yet, no metadata yet.
    std::fs::remove_file(aliases.join("half.json")).expect("removed");
    std::fs::remove_file(collections.join(&half.collection).join("ragbus.json")).expect("removed");
    std::fs::write(
        collections.join(&corrupt.collection).join("ragbus.json"),
        "{",
    )
    .expect("written");
    std::fs::write(aliases.join("alias.json"), "[]").expect("written");
    std::fs::remove_file(collections.join(&lost.collection).join("ragbus.json")).expect("removed");
    std::fs::remove_dir_all(collections.join(&vanished.collection)).expect("removed");

    let store = open(EdgeConfig::new(dir.path()));
    assert_eq!(store.describe(&half.corpus).await.expect("described"), None);
    store.ensure(&half, &schema()).await.expect("created anew");
    store
        .upsert(&half, vec![wide_point("d", 0, 1, 8)])
        .await
        .expect("upserted");
    for (at, file) in [
        (&corrupt, "ragbus.json"),
        (&alias, "alias.json"),
        (&lost, "ragbus.json"),
        (&vanished, "ragbus.json"),
    ] {
        let error = store.describe(&at.corpus).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::DependencyFailed);
        assert!(error.message().contains(file), "{}", error.message());
        assert!(store.ensure(at, &schema()).await.is_err());
        assert!(store.count(at).await.is_err());
    }
    for at in [&corrupt, &alias, &lost] {
        let kept = collections.join(&at.collection).exists();
        assert!(kept, "data is never removed for want of metadata");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_shard_is_an_error_and_others_work() {
    let dir = tempfile::tempdir().expect("a folder");
    let (broken, sound) = (place("broken"), place("sound"));
    let store = open(EdgeConfig::new(dir.path()));
    for at in [&broken, &sound] {
        store.ensure(at, &schema()).await.expect("ensured");
        store
            .upsert(at, vec![wide_point("d", 0, 1, 8)])
            .await
            .expect("upserted");
    }
    store.close().await.expect("closed");
    let shard = dir
        .path()
        .join("collections")
        .join(&broken.collection)
        .join("shard-1");
    for segment in names(&shard.join("segments")) {
        std::fs::write(
            shard.join("segments").join(segment).join("segment.json"),
            "{",
        )
        .expect("written");
    }
    let store = open(EdgeConfig::new(dir.path()));
    for _ in 0..2 {
        assert!(store.count(&broken).await.is_err());
        assert!(
            store
                .upsert(&broken, vec![wide_point("d", 1, 1, 8)])
                .await
                .is_err()
        );
    }
    assert_eq!(store.count(&sound).await.expect("counted"), 1);
    store
        .drop_generation(&broken)
        .await
        .expect("dropped all the same");
    store
        .upsert(&sound, vec![wide_point("d", 1, 1, 8)])
        .await
        .expect("upserted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_log_is_noticed_and_mended() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = place("c");
    let store = open(EdgeConfig::new(dir.path()));
    store.ensure(&at, &schema()).await.expect("ensured");
    for i in 0..20 {
        store
            .upsert(&at, vec![wide_point("d", i, 1, 8)])
            .await
            .expect("upserted");
    }
    store.close().await.expect("closed");
    let wal = |number| format!("collections/{}/shard-{number}/wal", at.collection);
    std::fs::remove_dir_all(dir.path().join(wal(1))).expect("removed");

    let store = open(EdgeConfig::new(dir.path()));
    let newer = || store.upsert(&at, vec![wide_point("d", 0, 2, 8)]);
    let error = newer().await.expect_err("the engine ignored it");
    assert_eq!(error.kind(), ErrorKind::DependencyFailed);
    newer().await.expect("mended");
    assert_eq!(
        store
            .document_chunks(&at, &document("d"), 2)
            .await
            .expect("read")
            .len(),
        1
    );
    store.close().await.expect("closed");
    std::fs::remove_dir_all(dir.path().join(wal(2))).expect("removed");

    let store = open(EdgeConfig::new(dir.path()));
    assert!(store.delete_below(&at, &document("d"), 9).await.is_err());
    assert_eq!(
        store
            .delete_below(&at, &document("d"), 9)
            .await
            .expect("deleted"),
        20
    );
    assert_eq!(store.count(&at).await.expect("counted"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_the_engine_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let (broken, sound) = (place("broken"), place("sound"));
    let store = open(EdgeConfig::new(dir.path()));
    for at in [&broken, &sound] {
        store.ensure(at, &schema()).await.expect("ensured");
        store
            .upsert(at, vec![wide_point("d", 0, 1, 8)])
            .await
            .expect("upserted");
    }
    // The engine unwraps what it decodes: garbage in its (mapped) payload pages makes it panic.
    let segments = dir
        .path()
        .join("collections")
        .join(&broken.collection)
        .join("shard-1/segments");
    for segment in names(&segments) {
        use std::io::Write;
        let page = segments.join(segment).join("payload_storage/page_0.dat");
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .open(page)
            .expect("a page");
        file.write_all(&[0xff; 4096]).expect("written");
    }
    for _ in 0..2 {
        let read = store.document_chunks(&broken, &document("d"), 1).await;
        assert_eq!(read.expect_err("failed").kind(), ErrorKind::Internal);
        let write = store.upsert(&broken, vec![wide_point("d", 0, 2, 8)]).await;
        assert_eq!(write.expect_err("failed").kind(), ErrorKind::Internal);
    }
    assert_eq!(store.count(&sound).await.expect("counted"), 1);
    store
        .upsert(&sound, vec![wide_point("d", 1, 1, 8)])
        .await
        .expect("upserted");
    store.drop_generation(&broken).await.expect("dropped");
    store.close().await.expect("closed");
}
