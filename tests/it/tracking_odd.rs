//! One event that the database refuses holds up no other, and is stored once the reason is gone.

use std::str::FromStr;

use ragbus::model::{RetrievalId, RetrievalRecord, Timestamp};
use ragbus::testing::contract::tracker::{a_corpus, busy_record};
use ragbus::wire::retrieval_recorded;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::harness::*;
use crate::tracking::{so_many, sqlite};

const EVENTS: u128 = 150;
const ODD: u128 = 77;

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_refused_waits_alone() {
    let service = Service::start().await;
    let file = service.dir.path().join("data/ragbus.db");
    let options = SqliteConnectOptions::from_str("sqlite:").expect("valid");
    let pool = SqlitePoolOptions::new().max_connections(1);
    let sql = pool.connect_with(options.filename(&file)).await;
    let sql = sql.expect("opens");
    let trigger = "CREATE TRIGGER odd BEFORE INSERT ON retrievals WHEN hex(NEW.retrieval_id) = \
                   '0000000000000000000000000000004D' BEGIN SELECT RAISE(ABORT, 'odd'); END";
    sqlx::query(trigger).execute(&sql).await.expect("made");
    let corpus = a_corpus();
    let client = service.nats.client().await;
    let jetstream = async_nats::jetstream::new(client);
    let subject = format!("rag.tracking.{}", corpus.tenant);
    let now = Timestamp::now().as_micros();
    for number in 1..=EVENTS {
        let record = RetrievalRecord {
            id: RetrievalId::from_u128(number),
            ..busy_record(&corpus, now, 1)
        };
        let body = prost::Message::encode_to_vec(&retrieval_recorded(&record));
        let sent = jetstream.publish(subject.clone(), body.into()).await;
        sent.expect("sent").await.expect("stored");
    }
    let tracker = sqlite(&service).await;
    let others = so_many(&tracker, corpus.tenant.as_str(), EVENTS as usize - 1).await;
    assert!(others.iter().all(|record| record.id.as_u128() != ODD));
    eventually("only the odd one waits", PATIENCE, || async {
        (service.nats.waiting("RAG_TRACKING").await == 1).then_some(())
    })
    .await;
    assert_eq!(service.nats.waiting("RAG_DLQ").await, 0);
    let gone = sqlx::query("DROP TRIGGER odd").execute(&sql).await;
    gone.expect("dropped");
    so_many(&tracker, corpus.tenant.as_str(), EVENTS as usize).await;
}
