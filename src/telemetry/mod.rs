//! Telemetry: logs, traces, metrics and health.
//!
//! Layer 4. Query, document and metadata text never enters a log, span, label or error message.

mod health;
mod metrics;
mod otlp;
mod propagation;
mod tracing_setup;
mod tracking_metrics;

pub use health::{Health, HttpServer};
pub use metrics::{InferenceGauges, Metrics, MetricsSetup};
pub use propagation::{TraceHeaders, current_headers, set_parent};
pub use tracing_setup::{Telemetry, start};
pub use tracking_metrics::TrackingMetrics;
