//! A tenant that floods its lane delays the others in it by a few batches, and loses nothing by it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use async_nats::Subscriber;
use futures::StreamExt;
use serde_json::Value;

use crate::harness::*;

/// Jobs of the flood, as many as the stream takes of one tenant at once. The same with 5,000 (19, 24 and 14 jobs done before the
/// neighbour's) takes five minutes on two cores, which is too long here.
const FLOOD: usize = 1_000;
/// What the flood may get done while the other tenant's single job waits.
const FEW_BATCHES: usize = 200;
/// For everything: all of the flood's jobs, in an unoptimised build beside other tests.
const ALL: Duration = Duration::from_secs(400);
const LANES: u32 = 16;

/// The lane of a tenant, as the server computes it: FNV-1a over the token.
fn lane(tenant: &str) -> u32 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    tenant.bytes().fold(2_166_136_261, mix) % LANES
}

/// A tenant in the same lane as this one.
fn neighbour(of: &str) -> String {
    let names = (0..1_000).map(|number| format!("quiet{number}"));
    let mut same = names.filter(|name| lane(name) == lane(of));
    same.next().expect("one in sixteen")
}

fn job(number: usize) -> Value {
    put_chunks("c", &format!("d{number}"), &[format!("text {number}")])
}

/// Keeps the flood's backlog full until every job is in the stream.
async fn flood(caller: Caller) {
    let mut left: VecDeque<usize> = (0..FLOOD).collect();
    while !left.is_empty() {
        let mut sent = Vec::new();
        for number in left.drain(..left.len().min(100)) {
            let id = format!("a-{number}");
            let all = headers(&[JSON, ("Rag-Request-Id", &id), ("Nats-Msg-Id", &name())]);
            let body = job(number).to_string();
            let subject = format!("rag.ingest.{}", caller.tenant);
            let publish = caller
                .jetstream
                .publish_with_headers(subject, all, body.into());
            sent.push((number, publish.await.expect("sent")));
        }
        for (number, ack) in sent {
            if let Err(error) = ack.await {
                assert!(format!("{error:?}").contains("10077"), "{error:?}");
                left.push_back(number);
            }
        }
    }
}

/// The next result: its tenant, its job and what it says.
async fn next(results: &mut Subscriber) -> (String, String, Value) {
    let message = tokio::time::timeout(PATIENCE, results.next()).await;
    let message = message.expect("in time").expect("open");
    let mut tokens = message
        .subject
        .as_str()
        .split('.')
        .skip(2)
        .map(str::to_owned);
    let (tenant, job) = (tokens.next().expect("a tenant"), tokens.next());
    let result = serde_json::from_slice(&message.payload).expect("JSON");
    (tenant, job.expect("a job"), result)
}

/// Both tenants' jobs come through the same lane.
async fn same_lane(hints: &mut Subscriber, tenants: [&str; 2]) {
    let mut lanes = HashMap::new();
    while lanes.len() < tenants.len() {
        let hint = tokio::time::timeout(PATIENCE, hints.next()).await;
        let hint = hint.expect("in time").expect("open");
        let headers = hint.headers.expect("headers");
        let subject = headers.get("Nats-Subject").expect("a subject").to_string();
        let tenant = subject.rsplit('.').next().unwrap_or_default().to_owned();
        lanes.insert(tenant, hint.subject.to_string());
    }
    assert_eq!(lanes[tenants[0]], lanes[tenants[1]], "{lanes:?}");
}

/// The flood's results until the other tenant's one is there; each job's statuses go into `ended`.
async fn until(
    tenant: &str,
    results: &mut Subscriber,
    ended: &mut HashMap<String, Vec<Value>>,
) -> usize {
    let mut between = 0;
    loop {
        let (whose, job, result) = next(results).await;
        if whose == tenant {
            assert_eq!(result["status"], "INDEXED", "{result}");
            assert_eq!(result["attempt"], 1, "{result}");
            return between;
        }
        between += 1;
        ended.entry(job).or_default().push(result);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_delays_a_neighbours_single_job_by_a_few_batches() {
    let service = Service::start().await;
    let quiet_name = neighbour("flood");
    let watching = service.nats.client().await;
    let mut results = watching.subscribe("rag.result.*.*").await.expect("heard");
    let mut hints = watching.subscribe("rag.hint.*").await.expect("heard");
    watching.flush().await.expect("known to the server");
    let quiet = Caller::of(&service.nats, &quiet_name).await;
    let flooding = tokio::spawn(flood(Caller::of(&service.nats, "flood").await));
    let mut ended: HashMap<String, Vec<Value>> = HashMap::new();
    // Three times, in the middle of the flood: with a full backlog in front, and after the round before.
    for number in 1..=3_usize {
        while ended.len() < number * FLOOD / 10 {
            let (_, job, result) = next(&mut results).await;
            ended.entry(job).or_default().push(result);
        }
        let waiting = service.nats.waiting("RAG_INGEST").await;
        assert!(waiting > 500, "only {waiting} jobs are in front");
        quiet.publish(&job(number)).await;
        let between = until(&quiet_name, &mut results, &mut ended).await;
        eprintln!("{waiting} jobs in front, {between} done before the quiet tenant's");
        assert!(between <= FEW_BATCHES, "{between} of {waiting}");
    }
    same_lane(&mut hints, ["flood", &quiet_name]).await;
    tokio::time::timeout(ALL, flooding)
        .await
        .expect("in time")
        .expect("published");
    while ended.len() < FLOOD {
        let (_, job, result) = next(&mut results).await;
        ended.entry(job).or_default().push(result);
    }
    for (job, results) in &ended {
        assert_eq!(results.len(), 1, "{job} ended more than once: {results:?}");
        assert_eq!(results[0]["status"], "INDEXED", "{results:?}");
        assert_eq!(results[0]["attempt"], 1, "parking is no attempt");
    }
    eventually("nothing is left", PATIENCE, || async {
        (service.nats.waiting("RAG_INGEST").await == 0).then_some(())
    })
    .await;
    assert_eq!(service.nats.waiting("RAG_DLQ").await, 0);
    let own = Caller::of(&service.nats, "flood").await;
    assert_eq!(own.corpora().await[0]["documents"], FLOOD);
    let parked = service.worker.metric("ragbus_ingest_parked_total").await;
    eprintln!("{parked} jobs stepped aside");
    assert!(parked >= 500.0, "{parked}: the flood stepped aside");
    // A round costs one pass over the backlog, and there is a pause after each.
    assert!(parked <= 10.0 * FLOOD as f64, "{parked}");
}
