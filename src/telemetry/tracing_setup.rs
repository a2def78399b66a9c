//! Logs and traces of the process: readable on a terminal, JSON elsewhere, OTLP when an endpoint is set.

use std::io::IsTerminal;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::Metrics;
use super::otlp::{metric_exporter, protocol, span_exporter};
use crate::error::{Error, Result};

const EXPORT_EVERY: Duration = Duration::from_secs(10);
/// Names the level of our own logs: error, warn, info (the default), debug or trace. Libraries stay at `warn` whatever it says:
/// below that they print messages whole, and those are private.
const LEVEL: &str = "RAGBUS_LOG";

/// The process' telemetry; [`Telemetry::shutdown`] sends what is still buffered.
#[derive(Debug)]
pub struct Telemetry {
    traces: SdkTracerProvider,
    meters: SdkMeterProvider,
    registry: prometheus::Registry,
    /// The instruments.
    pub metrics: Metrics,
}

/// Starts logs, traces and metrics. Call it once, outside async code but inside a runtime's context.
///
/// # Errors
/// `InvalidField` when the OTLP endpoint can't be used; `Internal` when telemetry runs already.
pub fn start(otlp_endpoint: &str, worker: &str) -> Result<Telemetry> {
    let resource = Resource::builder()
        .with_service_name("ragbus")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attribute(KeyValue::new("service.instance.id", worker.to_owned()))
        .build();
    let registry = prometheus::Registry::new();
    let prometheus = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .build()
        .map_err(|e| Error::internal("the metrics registry can't be set up").caused_by(e))?;
    let mut traces = SdkTracerProvider::builder().with_resource(resource.clone());
    let mut meters = SdkMeterProvider::builder()
        .with_resource(resource)
        .with_reader(prometheus);
    if !otlp_endpoint.is_empty() {
        let wanted = std::env::var("OTEL_EXPORTER_OTLP_PROTOCOL").ok();
        let protocol = protocol(otlp_endpoint, wanted.as_deref());
        traces = traces.with_batch_exporter(span_exporter(otlp_endpoint, protocol)?);
        let exporter = metric_exporter(otlp_endpoint, protocol)?;
        meters = meters.with_reader(
            PeriodicReader::builder(exporter)
                .with_interval(EXPORT_EVERY)
                .build(),
        );
    }
    let (traces, meters) = (traces.build(), meters.build());
    subscribe(&traces)?;
    let metrics = Metrics::new(&meters);
    Ok(Telemetry {
        traces,
        meters,
        registry,
        metrics,
    })
}

fn subscribe(traces: &SdkTracerProvider) -> Result<()> {
    let own = std::env::var(LEVEL)
        .ok()
        .and_then(|level| level.trim().parse().ok());
    let filter = Targets::new()
        .with_default(Level::WARN)
        // Logs answers and questions when something goes wrong; our own adapter says what did.
        .with_target("async_openai", LevelFilter::OFF)
        .with_target("ragbus", own.unwrap_or(Level::INFO));
    let terminal = std::io::stderr().is_terminal();
    let plain = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let logs = if terminal {
        plain.with_target(false).boxed()
    } else {
        plain
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(true)
            .boxed()
    };
    let spans = tracing_opentelemetry::layer()
        .with_tracer(traces.tracer("ragbus"))
        .with_filter(Targets::new().with_target("ragbus", Level::INFO));
    tracing_subscriber::registry()
        .with(logs.with_filter(filter))
        .with(spans)
        .try_init()
        .map_err(|e| Error::internal("telemetry runs already").caused_by(e))
}

impl Telemetry {
    /// The metrics in Prometheus' text format.
    pub fn prometheus(&self) -> prometheus::Registry {
        self.registry.clone()
    }

    /// Sends what is still buffered; bounded by the exporters' own time limits.
    pub fn shutdown(&self) {
        // Nothing is left to tell about a failure to tell.
        let _ = self.traces.shutdown();
        let _ = self.meters.shutdown();
    }
}
