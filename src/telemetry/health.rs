//! `/livez`, `/readyz` and `/metrics`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};

/// What keeps a worker from serving: a set of named conditions, empty = ready.
#[derive(Debug, Clone, Default)]
pub struct Health {
    unmet: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl Health {
    /// Sets or clears a condition; `Some(why)` = the worker can't serve.
    pub fn set(&self, condition: &'static str, problem: Option<String>) {
        let mut unmet = self.unmet.lock().unwrap_or_else(PoisonError::into_inner);
        match problem {
            Some(why) => unmet.insert(condition, why),
            None => unmet.remove(condition),
        };
    }

    /// Whether nothing keeps the worker from serving.
    pub fn is_ready(&self) -> bool {
        self.problems().is_empty()
    }

    /// What keeps the worker from serving, one line each.
    pub fn problems(&self) -> Vec<String> {
        let unmet = self.unmet.lock().unwrap_or_else(PoisonError::into_inner);
        unmet
            .iter()
            .map(|(what, why)| format!("{what}: {why}"))
            .collect()
    }
}

/// The server of the health and metrics pages.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
}

#[derive(Clone)]
struct Pages {
    health: Health,
    registry: prometheus::Registry,
}

impl HttpServer {
    /// Takes the address.
    ///
    /// # Errors
    /// `InvalidField` on `telemetry.http_listen` when it is no address or taken.
    pub async fn bind(address: &str) -> Result<Self> {
        const KEY: &str = "telemetry.http_listen";
        let parsed: SocketAddr = address.parse().map_err(|e| {
            Error::invalid_field(KEY, "must be an address with a port").caused_by(e)
        })?;
        let listener = TcpListener::bind(parsed).await.map_err(|e| {
            let problem =
                format!("{parsed} can't be used: set another one, or an empty one for none");
            Error::invalid_field(KEY, problem).caused_by(e)
        })?;
        Ok(Self { listener })
    }

    /// Serves until the token is cancelled.
    pub async fn serve(
        self,
        health: Health,
        registry: prometheus::Registry,
        stop: CancellationToken,
    ) {
        let pages = Router::new()
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .with_state(Pages { health, registry });
        let served =
            axum::serve(self.listener, pages).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = served.await {
            tracing::error!(error = %error, "the health server stopped");
        }
    }
}

async fn ready(State(pages): State<Pages>) -> Response {
    let problems = pages.health.problems();
    if problems.is_empty() {
        (StatusCode::OK, "ready\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, problems.join("\n") + "\n").into_response()
    }
}

async fn metrics(State(pages): State<Pages>) -> Response {
    let encoder = prometheus::TextEncoder::new();
    match encoder.encode_to_string(&pages.registry.gather()) {
        Ok(text) => (
            [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
            text,
        )
            .into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
