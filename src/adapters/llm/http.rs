//! Between the client library and the network: only answers that are whole, of sane size and readable get through.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use reqwest::Response;
use tower::Service;

use super::generator::ChatAnswer;
use crate::error::{Error, ErrorKind};

/// The largest answer: many times what any token limit of ours gives.
const MAX_ANSWER: usize = 256 * 1024;

/// Sends requests once, and reads answers with a bound.
#[derive(Debug, Clone)]
pub(super) struct BoundedHttp {
    client: reqwest::Client,
}

impl BoundedHttp {
    pub(super) fn new(client: reqwest::Client) -> Self {
        Self { client }
    }
}

impl Service<HttpRequestFactory> for BoundedHttp {
    type Response = Response;
    type Error = OpenAIError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, OpenAIError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        let client = self.client.clone();
        Box::pin(async move {
            let request = request.build().await?;
            let response = client.execute(request).await.map_err(unreachable)?;
            answer(response).await.map_err(boxed)
        })
    }
}

fn boxed(error: Error) -> OpenAIError {
    OpenAIError::Boxed(Box::new(error))
}

/// The address may hold a password: it is left out.
fn unreachable(error: reqwest::Error) -> OpenAIError {
    boxed(Error::dependency(
        "the language model can't be reached",
        error.without_url(),
    ))
}

async fn answer(mut response: Response) -> Result<Response, Error> {
    let status = response.status();
    if !status.is_success() {
        return Err(Error::new(
            ErrorKind::DependencyFailed,
            format!(
                "the language model answered with status {}",
                status.as_u16()
            ),
        ));
    }
    let broken = |e: reqwest::Error| {
        Error::dependency("the language model's answer broke off", e.without_url())
    };
    let mut body: Vec<u8> = Vec::new();
    while let Some(part) = response.chunk().await.map_err(broken)? {
        if body.len() + part.len() > MAX_ANSWER {
            return Err(Error::new(
                ErrorKind::TooLarge,
                "the language model's answer is larger than 256 KiB",
            ));
        }
        body.extend_from_slice(&part);
    }
    // The library would log what it can't read.
    if serde_json::from_slice::<ChatAnswer>(&body).is_err() {
        return Err(Error::new(
            ErrorKind::DependencyFailed,
            "the language model's answer is not a chat completion",
        ));
    }
    Ok(Response::from(http::Response::new(body)))
}
