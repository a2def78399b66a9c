//! The nats-server is killed in the middle of work and comes back.

use crate::harness::*;

const DOCUMENTS: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_nats_server_loses_and_doubles_nothing() {
    let mut service = Service::with(|s| s.env("RAGBUS__WORKER__INGEST_CONCURRENCY", "2")).await;
    let mut jobs = Vec::new();
    for i in 0..DOCUMENTS {
        let texts = [
            format!("document {i}, first"),
            format!("document {i}, second"),
        ];
        jobs.push((
            service
                .t1
                .publish(&put_chunks("c", &format!("d{i}"), &texts))
                .await
                .0,
            texts,
        ));
    }
    eventually("a few results", PATIENCE, || async {
        (service.nats.waiting("RAG_RESULT").await >= 10).then_some(())
    })
    .await;
    let done = service.nats.waiting("RAG_RESULT").await;
    assert!(done < DOCUMENTS as u64, "in the middle: {done}");
    service.nats.kill();
    eventually("the worker is not ready", PATIENCE, || async {
        (service.worker.readiness().await.0 == 503).then_some(())
    })
    .await;
    service.nats.restart().await;
    service.worker.ready().await;
    // A client of its own: the old one may still wait for its next try to connect.
    let t1 = Caller::of(&service.nats, "t1").await;
    for (i, (job, texts)) in jobs.iter().enumerate() {
        let result = t1.result_within(job, REDELIVERY).await;
        assert_eq!(
            (&result["status"], &result["chunks"]),
            (&"INDEXED".into(), &2.into()),
            "{result}"
        );
        assert_eq!(&t1.contents("c", &format!("d{i}")).await, texts);
    }
    assert_eq!(t1.retrieve("c", "document").await["outcome"], "OK");
    assert_eq!(service.nats.waiting("RAG_DLQ").await, 0);
}
