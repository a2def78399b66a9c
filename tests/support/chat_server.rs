//! A fake OpenAI-compatible server: it answers well, with errors, with nonsense, hugely, or never.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use serde_json::{Value, json};

/// What the server does with every question.
#[derive(Debug, Clone)]
pub enum Mood {
    Says(String),
    Status(u16, &'static str),
    Raw(Vec<u8>),
    Never,
    Redirects,
    BreaksOff,
}

/// The running server.
#[derive(Debug, Clone)]
pub struct ChatServer {
    pub address: SocketAddr,
    mood: Arc<Mutex<Mood>>,
    asked: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
}

impl ChatServer {
    /// Serves on a free port until the test ends.
    pub async fn start(mood: Mood) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let server = Self {
            address: listener.local_addr().expect("bound"),
            mood: Arc::new(Mutex::new(mood)),
            asked: Arc::default(),
        };
        let app = Router::new()
            .route("/v1/chat/completions", post(chat))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    /// What is configured as `llm.base_url`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// From now on it does this.
    pub fn now(&self, mood: Mood) {
        *self.mood.lock().expect("no panic") = mood;
    }

    /// The questions so far.
    pub fn asked(&self) -> Vec<(HeaderMap, Value)> {
        self.asked.lock().expect("no panic").clone()
    }
}

async fn chat(State(server): State<ChatServer>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    server.asked.lock().expect("no panic").push((headers, body));
    let reply = |status: u16, body: Body| {
        Response::builder()
            .status(status)
            .body(body)
            .expect("a reply")
    };
    let mood = server.mood.lock().expect("no panic").clone();
    match mood {
        Mood::Says(text) => {
            let answer =
                json!({ "choices": [{ "message": { "role": "assistant", "content": text } }] });
            reply(200, answer.to_string().into())
        }
        Mood::Status(status, text) => reply(status, text.into()),
        Mood::Raw(body) => reply(200, body.into()),
        Mood::Never => std::future::pending().await,
        Mood::Redirects => Response::builder()
            .status(StatusCode::TEMPORARY_REDIRECT)
            .header(header::LOCATION, "http://127.0.0.1:1/elsewhere")
            .body(Body::empty())
            .expect("a reply"),
        Mood::BreaksOff => {
            let parts: Vec<Result<Vec<u8>, std::io::Error>> = vec![
                Ok(b"{\"choices\":".to_vec()),
                Err(std::io::Error::other("as told")),
            ];
            reply(200, Body::from_stream(futures::stream::iter(parts)))
        }
    }
}
