//! A caller that knows the wire and nothing of ragbus: JSON over NATS.

use std::time::Duration;

use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, HeaderMap, Message, Request, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};

use super::{Nats, PATIENCE, eventually};

pub const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Headers from pairs.
pub fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(*name, *value);
    }
    map
}

/// A name nobody else has.
pub fn name() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// A reply.
#[derive(Debug)]
pub struct Answer {
    /// `Nats-Service-Error-Code`, 0 without.
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn of(message: Message) -> Self {
        let headers = message.headers.unwrap_or_default();
        let code = headers
            .get("Nats-Service-Error-Code")
            .map(|v| v.as_str().parse());
        Self {
            code: code.transpose().expect("a number").unwrap_or(0),
            headers,
            body: message.payload,
        }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// The body of a reply that is no error.
    pub fn ok(&self) -> Value {
        assert_eq!(self.code, 0, "{:?}", self.json());
        self.json()
    }
}

/// One tenant's client.
pub struct Caller {
    pub client: Client,
    pub jetstream: Context,
    pub tenant: String,
}

impl Caller {
    pub async fn of(nats: &Nats, tenant: &str) -> Self {
        Self::connected(ConnectOptions::new(), &nats.address(), tenant).await
    }

    pub async fn connected(options: ConnectOptions, url: &str, tenant: &str) -> Self {
        let options = options
            .custom_inbox_prefix(format!("_INBOX.{tenant}"))
            .request_timeout(Some(Duration::from_secs(30)));
        let client = options.connect(url).await.expect("connects");
        let jetstream = jetstream::new(client.clone());
        Self {
            client,
            jetstream,
            tenant: tenant.to_owned(),
        }
    }

    /// When this returns, the server has dealt with everything sent before. (`flush` only empties our own buffer.)
    pub async fn round_trip(&self) {
        let own = format!("_INBOX.{}.round.{}", self.tenant, name());
        let mut echo = self
            .client
            .subscribe(own.clone())
            .await
            .expect("subscribed");
        self.client.publish(own, "".into()).await.expect("sent");
        let echoed = tokio::time::timeout(PATIENCE, echo.next()).await;
        assert!(echoed.is_ok_and(|message| message.is_some()), "no echo");
    }

    pub async fn listen(&self, subject: &str) -> Subscriber {
        let listening = self.client.subscribe(subject.to_owned()).await;
        listening.expect("subscribed")
    }

    /// A request in JSON whose reply goes to this address.
    pub async fn send(&self, subject: &str, reply: &str, more: &[(&str, &str)], body: &str) {
        let mut all = headers(&[JSON]);
        for (name, value) in more {
            all.insert(*name, *value);
        }
        let (subject, reply) = (subject.to_owned(), reply.to_owned());
        let body = body.to_owned().into();
        let sent = self
            .client
            .publish_with_reply_and_headers(subject, reply, all, body);
        sent.await.expect("sent");
    }

    /// Any request; `None` when nobody answers in time.
    pub async fn raw(
        &self,
        subject: &str,
        headers: HeaderMap,
        body: impl Into<Bytes>,
        patience: Duration,
    ) -> Option<Answer> {
        let request = Request::new()
            .headers(headers)
            .payload(body.into())
            .timeout(Some(patience));
        let reply = self.client.send_request(subject.to_owned(), request).await;
        reply.ok().map(Answer::of)
    }

    /// A request of this tenant with more headers.
    pub async fn ask_with(&self, verb: &str, more: &[(&str, &str)], body: &Value) -> Answer {
        let mut all = headers(&[JSON]);
        for (name, value) in more {
            all.insert(*name, *value);
        }
        let subject = format!("rag.{verb}.{}", self.tenant);
        self.raw(&subject, all, body.to_string(), PATIENCE)
            .await
            .expect("a reply")
    }

    pub async fn ask(&self, verb: &str, body: &Value) -> Answer {
        self.ask_with(verb, &[], body).await
    }

    pub async fn retrieve(&self, corpus: &str, query: &str) -> Value {
        self.ask("retrieve", &json!({ "corpus": corpus, "query": query }))
            .await
            .ok()
    }

    /// The corpora of the catalog.
    pub async fn corpora(&self) -> Value {
        self.ask("catalog", &json!({ "listCorpora": {} }))
            .await
            .ok()["corpora"]
            .clone()
    }

    /// A document of the catalog with its chunks; `None` = 404.
    pub async fn document(&self, corpus: &str, document: &str) -> Option<Value> {
        let question = json!({ "corpus": corpus, "documentId": document, "chunks": true });
        let answer = self
            .ask("catalog", &json!({ "getDocument": question }))
            .await;
        match answer.code {
            404 => None,
            _ => Some(answer.ok()["document"].clone()),
        }
    }

    /// The contents of a document's chunks, in order; empty without the document.
    pub async fn contents(&self, corpus: &str, document: &str) -> Vec<String> {
        let document = self.document(corpus, document).await.unwrap_or_default();
        let chunks = document["chunks"].as_array().cloned().unwrap_or_default();
        chunks
            .iter()
            .map(|c| c["content"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Publishes bytes with exactly these headers.
    pub async fn publish_raw(
        &self,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<PublishAck, String> {
        let subject = format!("rag.ingest.{}", self.tenant);
        let sent = self
            .jetstream
            .publish_with_headers(subject, headers, body.into())
            .await;
        let said = |e: async_nats::jetstream::context::PublishError| format!("{e} {e:?}");
        sent.map_err(said)?.await.map_err(said)
    }

    /// Publishes a job under a name of its own: the name and its sequence.
    pub async fn publish(&self, job: &Value) -> (String, u64) {
        self.publish_with(&[], job).await
    }

    pub async fn publish_with(&self, more: &[(&str, &str)], job: &Value) -> (String, u64) {
        let job_id = name();
        let mut all = headers(&[JSON, ("Rag-Request-Id", &job_id), ("Nats-Msg-Id", &name())]);
        for (name, value) in more {
            all.insert(*name, *value);
        }
        let ack = self
            .publish_raw(all, job.to_string())
            .await
            .expect("stored");
        assert!(!ack.duplicate);
        (job_id, ack.sequence)
    }

    /// The message with a job's result, when it is there.
    pub async fn result_message(&self, job: &str) -> Option<Answer> {
        let results: jetstream::stream::Stream<()> = self
            .jetstream
            .get_stream_no_info("RAG_RESULT")
            .await
            .expect("a handle");
        let subject = format!("rag.result.{}.{job}", self.tenant);
        let found = results.direct_get_last_for_subject(subject).await.ok()?;
        Some(Answer {
            code: 0,
            headers: found.headers,
            body: found.payload,
        })
    }

    /// The result of a job, waiting for it.
    pub async fn result_within(&self, job: &str, patience: Duration) -> Value {
        eventually(&format!("the result of {job}"), patience, || {
            self.result_message(job)
        })
        .await
        .json()
    }

    pub async fn result(&self, job: &str) -> Value {
        self.result_within(job, PATIENCE).await
    }

    /// Publishes a job and waits for its result.
    pub async fn ingest(&self, job: &Value) -> Value {
        let (job_id, _) = self.publish(job).await;
        self.result(&job_id).await
    }

    /// The same for a put that must be carried out.
    pub async fn indexed(&self, job: &Value) -> Value {
        let result = self.ingest(job).await;
        assert_eq!(result["status"], "INDEXED", "{result}");
        result
    }
}
