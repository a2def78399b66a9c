//! W3C trace context in and out of message headers. Must not know NATS: it works on names and values.

use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// `traceparent` and `tracestate`, lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceHeaders(Vec<(String, String)>);

impl TraceHeaders {
    /// From whatever of the two a message brought.
    pub fn new(traceparent: Option<&str>, tracestate: Option<&str>) -> Self {
        let pairs = [("traceparent", traceparent), ("tracestate", tracestate)];
        let present = pairs
            .into_iter()
            .filter_map(|(name, value)| value.map(|v| (name.to_owned(), v.to_owned())));
        Self(present.collect())
    }

    /// The headers to write.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl Extractor for TraceHeaders {
    fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }
}

impl Injector for TraceHeaders {
    fn set(&mut self, key: &str, value: String) {
        if !value.is_empty() {
            self.0.push((key.to_owned(), value));
        }
    }
}

/// Makes the caller's span the parent of `span`.
pub fn set_parent(span: &Span, headers: &TraceHeaders) {
    let context = TraceContextPropagator::new().extract(headers);
    // Fails only when no tracing layer is installed, and then there is nothing to tie together.
    let _ = span.set_parent(context);
}

/// The headers that make the current span the parent of what follows.
pub fn current_headers() -> TraceHeaders {
    let mut headers = TraceHeaders::default();
    let context = Span::current().context();
    TraceContextPropagator::new().inject_context(&context, &mut headers);
    headers
}
