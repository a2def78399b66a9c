//! Asks a running service every query with the same options.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};

use super::super::context;
use crate::error::{Error, ErrorKind, Result};
use crate::evaluation::Question;
use crate::transport::nats::{Client, Reply};
use crate::wire::v1::{self, include, outcome};

/// Tries of a request that the service had no room for.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// Who is asked, and how.
#[derive(Debug)]
pub(in crate::cli) struct Asking<'a> {
    /// The service.
    pub client: &'a Client,
    /// The corpus.
    pub corpus: &'a str,
    /// Chunks wanted.
    pub limit: i32,
    /// Time budget of a request.
    pub budget: Duration,
    /// Requests at once.
    pub concurrency: usize,
}

/// An answer with its reply time.
#[derive(Debug)]
pub(in crate::cli) struct Answer {
    /// The query's id.
    pub query: String,
    /// The reply.
    pub response: v1::RetrieveResponse,
    /// From sending to receiving.
    pub took: Duration,
}

/// What became of a configuration.
#[derive(Debug)]
pub(in crate::cli) enum Asked {
    /// Every query has an answer.
    Answered,
    /// The service lacks a part that the options name; what it said.
    Refused(String),
}

impl Asking<'_> {
    /// Asks every query and hands the answers over in order. The first query is asked twice: the first time warms up, and
    /// tells whether the service can do this.
    ///
    /// # Errors
    /// Whatever a request fails with, naming the query; a missing corpus.
    pub(in crate::cli) async fn all(
        &self,
        queries: &[Question],
        options: &v1::RetrieveOptions,
        mut each: impl FnMut(Answer),
    ) -> Result<Asked> {
        let Some(first) = queries.first() else {
            return Ok(Asked::Answered);
        };
        match self.reply(first, options).await?.0 {
            Reply::Refused(error) if error.code == 422 && error.field.starts_with("options") => {
                return Ok(Asked::Refused(error.message));
            }
            Reply::Answer(response) if response.outcome() == outcome::Kind::NoCorpus => {
                let problem = "the corpus doesn't exist: put documents into it first (ragbus eval FOLDER --ingest)";
                return Err(Error::new(ErrorKind::NotFound, problem));
            }
            _ => {}
        }
        let asked = stream::iter(queries).map(|query| self.answer(query, options));
        let mut answers = asked.buffered(self.concurrency);
        while let Some(answer) = answers.next().await {
            each(answer?);
        }
        Ok(Asked::Answered)
    }

    async fn answer(&self, query: &Question, options: &v1::RetrieveOptions) -> Result<Answer> {
        match self.reply(query, options).await? {
            (Reply::Answer(response), took) => Ok(Answer {
                query: query.id.clone(),
                response,
                took,
            }),
            (Reply::Refused(error), _) => {
                let refused = context::refused(&error);
                let problem = format!("query {:?} failed", query.id);
                Err(Error::new(refused.kind(), problem).caused_by(refused))
            }
        }
    }

    /// A reply that is not "no room now", or the last one of those.
    async fn reply(
        &self,
        query: &Question,
        options: &v1::RetrieveOptions,
    ) -> Result<(Reply<v1::RetrieveResponse>, Duration)> {
        let mut options = options.clone();
        if options.include.is_empty() {
            // Contents are not looked at, and a hundred of them may not fit into a message.
            options.include.push(include::Part::Metadata.into());
        }
        let request = v1::RetrieveRequest {
            corpus: self.corpus.to_owned(),
            query: query.text.clone(),
            limit: Some(self.limit),
            options: Some(options),
            ..v1::RetrieveRequest::default()
        };
        let mut tries = 1;
        loop {
            let sent = Instant::now();
            let reply = self
                .client
                .request("retrieve", &request, self.budget)
                .await?;
            let took = sent.elapsed();
            match &reply {
                Reply::Refused(error)
                    if matches!(error.kind.as_str(), "overloaded" | "tenant_limit")
                        && tries < TRIES =>
                {
                    tries += 1;
                    let wait = Duration::from_millis(error.retry_after_ms.into());
                    tokio::time::sleep(wait.max(PAUSE)).await;
                }
                _ => return Ok((reply, took)),
            }
        }
    }
}
