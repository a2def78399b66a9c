//! SIGTERM loses nothing; what can't be shared is refused with exit code 2.

use std::collections::HashSet;
use std::time::Duration;

use async_nats::Subscriber;
use futures::StreamExt;
use serde_json::json;

use crate::harness::*;

const REQUESTS: usize = 30;
const JOBS: usize = 40;
/// What an orchestrator gives a process by default.
const GRACE: Duration = Duration::from_secs(30);

/// Each request has one reply, of a worker.
async fn all_answered(replies: &mut Subscriber) {
    let mut answered = HashSet::new();
    while answered.len() < REQUESTS {
        let next = tokio::time::timeout(GRACE, replies.next()).await;
        let next = next.unwrap_or_else(|_| panic!("only {} replies", answered.len()));
        let reply = next.expect("open");
        assert_eq!(reply.status, None, "a worker got it and didn't answer");
        let subject = reply.subject.to_string();
        let answer = Answer::of(reply);
        assert!(matches!(answer.code, 0 | 503), "{}", answer.json());
        assert!(answered.insert(subject), "two replies to one request");
    }
}

/// The worker ended cleanly, and had requests in work when it was told to.
async fn drained(worker: &mut Worker) {
    let status = worker.ended(GRACE).await;
    let log = worker.log();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("\"drained\""), "{log}");
    let signal = log.find("\"draining\"").expect("said");
    let late = log[signal..].contains("\"retrieved\"");
    assert!(late, "no request was in work");
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_answers_every_request_and_loses_no_job() {
    let service = Service::start().await;
    let Service {
        mut worker,
        nats,
        t1,
        dir,
    } = service;
    t1.indexed(&put("c", "first", "something to find")).await;
    let mut jobs = Vec::new();
    for i in 0..JOBS {
        let text = format!("document {i} {}", "with many words to embed ".repeat(30));
        jobs.push(t1.publish(&put("c", &format!("d{i}"), &text)).await.0);
    }
    // A reply each on one inbox; sent at once, so that they are in work when the signal comes.
    let mut replies = t1.listen("_INBOX.t1.drain.*").await;
    let query = json!({ "corpus": "c", "query": "what is there to find ".repeat(60) }).to_string();
    for i in 0..REQUESTS {
        let budget = [("Rag-Timeout-Ms", "60000")];
        let reply = format!("_INBOX.t1.drain.{i}");
        t1.send("rag.retrieve.t1", &reply, &budget, &query).await;
    }
    t1.round_trip().await;
    worker.terminate();
    all_answered(&mut replies).await;
    drained(&mut worker).await;
    let mut waiting = 0;
    for job in &jobs {
        waiting += u64::from(t1.result_message(job).await.is_none());
    }
    assert_eq!(
        nats.waiting("RAG_INGEST").await,
        waiting,
        "a job has a result or waits"
    );
    let _next = WorkerSetup::new(&nats.url(), dir.path()).start().await;
    for job in &jobs {
        assert_eq!(t1.result_within(job, REDELIVERY).await["status"], "INDEXED");
    }
    let corpora = t1.corpora().await;
    assert_eq!(corpora[0]["documents"], JOBS + 1);
    assert_eq!(nats.waiting("RAG_DLQ").await, 0);
}

/// Requests on one inbox, never more than a few hundred of them unanswered.
struct Flow<'a> {
    t1: &'a Caller,
    replies: Subscriber,
    sent: usize,
    answered: usize,
    /// Those that the server answered itself: nobody listens.
    unheard: usize,
}

impl Flow<'_> {
    const OUTSTANDING: usize = 300;

    async fn send(&mut self) {
        let reply = format!("_INBOX.t1.flow.{}", self.sent);
        let body = json!({ "getInfo": {} }).to_string();
        self.t1.send("rag.catalog.t1", &reply, &[], &body).await;
        self.sent += 1;
        while self.sent - self.answered - self.unheard > Self::OUTSTANDING {
            self.receive().await;
        }
    }

    async fn receive(&mut self) {
        let (answered, unheard) = (self.answered, self.unheard);
        let next = tokio::time::timeout(GRACE, self.replies.next()).await;
        let reply = next.unwrap_or_else(|_| {
            panic!(
                "{answered} answers, {unheard} without a worker, of {}",
                self.sent
            )
        });
        match reply.expect("open").status {
            Some(_) => self.unheard += 1,
            None => self.answered += 1,
        }
    }
}

/// Requests keep coming while the worker goes away: each is answered by it, or by the server that nobody listens.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_in_a_stream_of_requests_leaves_none_without_a_reply() {
    let mut service = Service::start().await;
    let mut flow = Flow {
        t1: &service.t1,
        replies: service.t1.listen("_INBOX.t1.flow.*").await,
        sent: 0,
        answered: 0,
        unheard: 0,
    };
    while flow.answered < 1_000 {
        flow.send().await;
    }
    service.worker.terminate();
    while flow.unheard < 1_000 {
        flow.send().await;
    }
    while flow.answered + flow.unheard < flow.sent {
        flow.receive().await;
    }
    assert_eq!(service.worker.ended(GRACE).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_worker_on_a_data_folder_exits_2_and_says_why() {
    let service = Service::start().await;
    let mut second = WorkerSetup::new(&service.nats.url(), service.dir.path()).spawn();
    assert_eq!(second.ended(PATIENCE).await.code(), Some(2));
    let log = second.log();
    assert!(log.contains("is in use by another worker"), "{log}");
    assert!(log.contains("set another data_dir"), "{log}");
    assert_eq!(
        service.worker.readiness().await.0,
        200,
        "the first one goes on"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_http_port_exits_2_and_says_which() {
    let service = Service::start().await;
    let other = tempfile::tempdir().expect("a folder");
    let taken = service.worker.http();
    let mut second = WorkerSetup::new(&service.nats.url(), other.path())
        .http(taken)
        .spawn();
    assert_eq!(second.ended(PATIENCE).await.code(), Some(2));
    assert!(
        second.log().contains(&format!("{taken} can't be used")),
        "{}",
        second.log()
    );
    assert_eq!(service.worker.readiness().await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_waits_for_nats_or_setup_ends_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let nobody = format!("nats://{}", free_address());
    let mut worker = WorkerSetup::new(&nobody, dir.path()).spawn();
    worker.says("waiting for NATS").await;
    assert_eq!(worker.readiness().await.0, 503);
    worker.terminate();
    assert_eq!(worker.ended(Duration::from_secs(10)).await.code(), Some(0));
    let nats = Nats::start().await;
    let mut worker = WorkerSetup::new(&nats.url(), dir.path()).spawn();
    worker.says("nothing is pulled").await;
    worker.terminate();
    assert_eq!(worker.ended(Duration::from_secs(10)).await.code(), Some(0));
}
