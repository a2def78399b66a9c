//! What becomes of calls when the server is slow, full, broken, or answers before it has done its work.

use std::time::Instant;

use super::*;

#[tokio::test]
async fn a_batch_that_was_half_applied_is_sent_again() {
    let (server, desk) = separate().await;
    server.then(UPSERT, Fault::HalfApplied);
    desk.upsert(points(&desk, 10)).await;
    assert_eq!(desk.count().await, 10);
}

#[tokio::test]
async fn a_write_whose_answers_are_lost_is_an_error_and_can_be_repeated() {
    let (server, desk) = separate().await;
    for _ in 0..4 {
        server.then(UPSERT, Fault::HalfApplied);
    }
    let before = server.calls(UPSERT);
    let written = desk.store.upsert(&desk.at, points(&desk, 10)).await;
    failed(written, ErrorKind::DependencyFailed);
    assert_eq!(server.calls(UPSERT) - before, 4, "the attempts are bounded");
    assert_eq!(desk.count().await, 5);
    desk.upsert(points(&desk, 10)).await;
    assert_eq!(desk.count().await, 10);
}

#[tokio::test]
async fn a_server_that_was_away_is_used_again() {
    let (server, desk) = separate().await;
    desk.upsert(points(&desk, 3)).await;
    server.set_down(true);
    failed(desk.store.health().await, ErrorKind::DependencyFailed);
    failed(
        desk.store.count(&desk.at).await,
        ErrorKind::DependencyFailed,
    );
    server.set_down(false);
    desk.store.health().await.expect("answers");
    assert_eq!(desk.count().await, 3);
}

#[tokio::test]
async fn logged_is_not_applied() {
    let (server, desk) = separate().await;
    for _ in 0..4 {
        server.then(UPSERT, Fault::WaitTimeout);
    }
    let written = desk.store.upsert(&desk.at, points(&desk, 3)).await;
    failed(written, ErrorKind::DependencyFailed);
    assert_eq!(desk.count().await, 0, "it still waits in the log");
    // What comes later is applied later, and sees it: nothing is left behind.
    desk.store
        .delete_below(&desk.at, &document(), 9)
        .await
        .expect("deleted");
    assert_eq!(desk.count().await, 0);
    server.then(UPSERT, Fault::WaitTimeout);
    desk.upsert(points(&desk, 3)).await;
    assert_eq!(desk.count().await, 3);
}

#[tokio::test]
async fn a_late_write_cannot_undo_a_newer_one() {
    let (server, desk) = separate().await;
    for _ in 0..4 {
        server.then(UPSERT, Fault::WaitTimeout);
    }
    let old = vec![desk.point("d", 0, 5)];
    failed(
        desk.store.upsert(&desk.at, old).await,
        ErrorKind::DependencyFailed,
    );
    desk.upsert(vec![desk.point("d", 0, 6)]).await;
    let read = desk
        .store
        .points(&desk.at, &[desk.id("d", 0)])
        .await
        .expect("read");
    assert_eq!(read[0].stored.sequence, 6);
}

#[tokio::test]
async fn a_server_that_does_not_answer_fails_in_time() {
    let (server, desk) = separate().await;
    server.then(UPSERT, Fault::Held);
    server.then("points/query", Fault::Held);
    let before = Instant::now();
    let query = hybrid(false);
    let (written, asked) = tokio::join!(
        desk.store.upsert(&desk.at, points(&desk, 1)),
        desk.store.query(&desk.at, &query),
    );
    failed(written, ErrorKind::DependencyFailed);
    failed(asked, ErrorKind::DependencyFailed);
    assert!(before.elapsed() < 2 * SHORTEST, "{:?}", before.elapsed());
    assert!(desk.store.write_limit() >= SHORTEST + Duration::from_secs(1));
}

#[tokio::test]
async fn a_busy_server_is_given_the_time_it_asks_for() {
    let (server, desk) = separate().await;
    server.then(UPSERT, Fault::Exhausted(Some(1)));
    let before = Instant::now();
    desk.upsert(points(&desk, 1)).await;
    assert!(
        before.elapsed() >= Duration::from_secs(1),
        "not earlier than it asked"
    );
    server.then(UPSERT, Fault::Exhausted(Some(60)));
    let calls = server.calls(UPSERT);
    let written = desk.store.upsert(&desk.at, points(&desk, 1)).await;
    let error = failed(written, ErrorKind::Overloaded);
    assert_eq!(error.retry_wait(), Some(Duration::from_secs(60)));
    assert_eq!(
        server.calls(UPSERT) - calls,
        1,
        "longer than there is time: the caller's turn"
    );
    server.then(UPSERT, Fault::Exhausted(None));
    let written = desk.store.upsert(&desk.at, points(&desk, 1)).await;
    assert_eq!(failed(written, ErrorKind::Overloaded).retry_wait(), None);
}

#[tokio::test]
async fn a_passing_failure_passes_and_a_lasting_one_is_told() {
    let (server, desk) = separate().await;
    let before = server.calls("points/query");
    server.then("points/query", Fault::Fails(Code::Unavailable));
    server.then("points/query", Fault::Fails(Code::DeadlineExceeded));
    desk.store
        .query(&desk.at, &hybrid(false))
        .await
        .expect("answered");
    assert_eq!(server.calls("points/query") - before, 3);
    for _ in 0..10 {
        server.then("points/query", Fault::Fails(Code::Unavailable));
    }
    let asked = desk.store.query(&desk.at, &hybrid(false)).await;
    failed(asked, ErrorKind::DependencyFailed);
}

#[tokio::test]
async fn a_request_that_is_refused_is_a_bug_and_is_not_repeated() {
    let (server, desk) = separate().await;
    server.then(UPSERT, Fault::Fails(Code::InvalidArgument));
    let calls = server.calls(UPSERT);
    let written = desk.store.upsert(&desk.at, points(&desk, 1)).await;
    failed(written, ErrorKind::Internal);
    assert_eq!(server.calls(UPSERT) - calls, 1);
}
