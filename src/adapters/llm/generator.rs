//! The port of text generation over a chat endpoint.

use std::time::Duration;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::address::{OwnAddresses, endpoint};
use super::http::BoundedHttp;
use crate::error::{Error, ErrorKind, Result};
use crate::spi::{Generation, TextGenerator};

const CONNECT: Duration = Duration::from_secs(2);

/// Where the model is.
#[derive(Clone)]
pub struct ChatConfig {
    /// The endpoint's root, such as `http://127.0.0.1:11434/v1`; `/chat/completions` is added.
    pub base_url: String,
    /// The model's name there.
    pub model: String,
    /// The key; empty = none.
    pub api_key: String,
    /// Whether addresses outside loopback and private networks are allowed.
    pub allow_remote: bool,
}

/// The key stays out of logs.
impl std::fmt::Debug for ChatConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatConfig")
            .field("model", &self.model)
            .field("allow_remote", &self.allow_remote)
            .finish_non_exhaustive()
    }
}

/// A language model behind a chat endpoint.
#[derive(Clone)]
pub struct ChatGenerator {
    client: Client<OpenAIConfig>,
    model: String,
}

impl std::fmt::Debug for ChatGenerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatGenerator")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl ChatGenerator {
    /// A client of the endpoint; nothing is sent yet.
    ///
    /// # Errors
    /// `InvalidField` on `llm.base_url`.
    pub async fn new(config: &ChatConfig) -> Result<Self> {
        let url = endpoint(&config.base_url, config.allow_remote).await?;
        // Another part of the process may have chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            // A redirect would be a way out.
            .redirect(reqwest::redirect::Policy::none());
        if !config.allow_remote {
            http = http.no_proxy().dns_resolver(OwnAddresses);
        }
        let http = http
            .build()
            .map_err(|e| Error::internal("the HTTP client can't be made").caused_by(e))?;
        let api = OpenAIConfig::new()
            .with_api_base(url.as_str().trim_end_matches('/'))
            .with_api_key(config.api_key.as_str());
        Ok(Self {
            client: Client::build(http.clone(), api).with_http_service(BoundedHttp::new(http)),
            model: config.model.clone(),
        })
    }
}

#[derive(Serialize)]
struct ChatRequest<'a> {
    model: &'a str,
    messages: [ChatMessage<'a>; 2],
    max_tokens: u32,
    temperature: f32,
    stream: bool,
}

#[derive(Serialize)]
struct ChatMessage<'a> {
    role: &'static str,
    content: &'a str,
}

/// What is read of an answer; compatible servers differ in the rest.
#[derive(Deserialize)]
pub(super) struct ChatAnswer {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Said,
}

#[derive(Deserialize)]
struct Said {
    content: Option<String>,
}

#[async_trait]
impl TextGenerator for ChatGenerator {
    fn id(&self) -> &str {
        &self.model
    }

    #[tracing::instrument(target = "ragbus", name = "generate", skip_all)]
    async fn generate(&self, request: Generation) -> Result<String> {
        let message = |role, content| ChatMessage { role, content };
        let body = ChatRequest {
            model: &self.model,
            messages: [
                message("system", &request.instruction),
                message("user", &request.input),
            ],
            max_tokens: request.max_tokens,
            temperature: request.temperature,
            stream: false,
        };
        let chat = self.client.chat();
        let answer = chat.create_byot::<_, ChatAnswer>(body);
        let until = tokio::time::Instant::from_std(request.deadline);
        let answer = tokio::time::timeout_at(until, answer)
            .await
            .map_err(|_| Error::timeout("expansion"))?
            .map_err(failed)?;
        let said = answer.choices.into_iter().next();
        Ok(said
            .and_then(|choice| choice.message.content)
            .unwrap_or_default())
    }
}

/// Our own errors come back as they were; the library's may quote the answer and are told by their kind only.
fn failed(error: OpenAIError) -> Error {
    match error {
        OpenAIError::Boxed(error) => match error.downcast::<Error>() {
            Ok(own) => *own,
            Err(_) => unusable(),
        },
        _ => unusable(),
    }
}

fn unusable() -> Error {
    Error::new(
        ErrorKind::DependencyFailed,
        "the language model's answer can't be used",
    )
}
