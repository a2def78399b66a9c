//! OTLP exporters for traces and metrics. Must not know what is exported.

use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig};

use crate::error::{Error, Result};

/// How an endpoint is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Grpc,
    Http,
}

/// gRPC, unless `OTEL_EXPORTER_OTLP_PROTOCOL` says http/protobuf, or the endpoint has HTTP's port (4318) or a path.
pub(super) fn protocol(endpoint: &str, wanted: Option<&str>) -> Protocol {
    match wanted {
        Some(text) if text.starts_with("http") => return Protocol::Http,
        Some("grpc") => return Protocol::Grpc,
        Some(_) | None => {}
    }
    let address = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, rest)| rest);
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    if host.ends_with(":4318") || !path.is_empty() {
        Protocol::Http
    } else {
        Protocol::Grpc
    }
}

fn http_url(endpoint: &str, signal: &str) -> String {
    format!("{}/v1/{signal}", endpoint.trim_end_matches('/'))
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::invalid_field("telemetry.otlp_endpoint", "can't be used").caused_by(error)
}

/// An exporter of spans.
pub(super) fn span_exporter(endpoint: &str, protocol: Protocol) -> Result<SpanExporter> {
    match protocol {
        Protocol::Grpc => SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .build(),
        Protocol::Http => {
            let url = http_url(endpoint, "traces");
            SpanExporter::builder()
                .with_http()
                .with_endpoint(url)
                .build()
        }
    }
    .map_err(failed)
}

/// An exporter of metrics.
pub(super) fn metric_exporter(endpoint: &str, protocol: Protocol) -> Result<MetricExporter> {
    match protocol {
        Protocol::Grpc => MetricExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .build(),
        Protocol::Http => {
            let url = http_url(endpoint, "metrics");
            MetricExporter::builder()
                .with_http()
                .with_endpoint(url)
                .build()
        }
    }
    .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_tells_the_protocol() {
        assert_eq!(protocol("http://127.0.0.1:4317", None), Protocol::Grpc);
        assert_eq!(protocol("http://127.0.0.1:4318", None), Protocol::Http);
        assert_eq!(protocol("http://collector/otlp", None), Protocol::Http);
        assert_eq!(
            protocol("http://127.0.0.1:9999", Some("http/protobuf")),
            Protocol::Http
        );
        assert_eq!(
            protocol("http://127.0.0.1:4318", Some("grpc")),
            Protocol::Grpc
        );
        assert_eq!(
            http_url("http://a:4318/", "traces"),
            "http://a:4318/v1/traces"
        );
    }
}
