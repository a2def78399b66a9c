//! The table: what each module may name.

/// A row of the table: modules under this path may name these crates and these modules of ours, beside their own.
pub struct Row {
    pub path: &'static str,
    pub crates: &'static [&'static str],
    pub modules: &'static [&'static str],
}

/// Layer 0 and 1, which every row below them may name.
const BASE: &[&str] = &["error", "fusion", "model", "tenancy", "spi"];

/// What both SQL databases share.
const SQL: &[&str] = &[
    "error",
    "model",
    "spi",
    "adapters::metadata_json",
    "adapters::registry_rules",
    "adapters::registry_rows",
    "adapters::registry_statements",
    "adapters::rebuild_statements",
    "adapters::retention_sql",
    "adapters::retention_statements",
    "adapters::result_json",
    "adapters::tracker_analysis",
    "adapters::tracker_analysis_sql",
    "adapters::tracker_json",
    "adapters::tracker_purging",
    "adapters::tracker_readers",
    "adapters::tracker_rows",
    "adapters::tracker_sql",
    "adapters::tracker_statements",
];

/// The same and the one layout of stored points.
const STORES: &[&str] = &[
    "error",
    "fusion",
    "model",
    "tenancy",
    "spi",
    "adapters::payload_names",
];

pub const ROWS: &[Row] = &[
    Row {
        path: "model",
        crates: &[],
        modules: &["error"],
    },
    Row {
        path: "error.rs",
        crates: &[],
        modules: &[],
    },
    Row {
        path: "fusion.rs",
        crates: &[],
        modules: &[],
    },
    Row {
        path: "tenancy.rs",
        crates: &[],
        modules: &["model"],
    },
    Row {
        path: "spi",
        crates: &["async_trait"],
        modules: &["error", "model", "tenancy"],
    },
    Row {
        path: "evaluation",
        crates: &["rand", "serde", "serde_json"],
        modules: &["error", "model"],
    },
    Row {
        path: "ingest",
        crates: &["sha2", "uuid", "text_splitter"],
        modules: BASE,
    },
    Row {
        path: "retention",
        crates: &["chrono", "croner"],
        modules: BASE,
    },
    Row {
        path: "retrieval",
        crates: &[],
        modules: BASE,
    },
    Row {
        path: "crossencoder",
        crates: &[],
        modules: BASE,
    },
    Row {
        path: "expansion",
        crates: &[],
        modules: BASE,
    },
    Row {
        path: "tracking",
        crates: &["hmac", "sha2"],
        modules: BASE,
    },
    Row {
        path: "adapters/edge",
        crates: &["qdrant_edge", "serde", "serde_json", "uuid", "jiff"],
        modules: STORES,
    },
    Row {
        path: "adapters/hub",
        crates: &["hf_hub", "indicatif", "serde", "toml", "toml_edit", "uuid"],
        modules: &["error", "adapters::file_digest"],
    },
    Row {
        path: "adapters/file_digest.rs",
        crates: &["sha2"],
        modules: &[],
    },
    Row {
        path: "adapters/lexical",
        crates: &[
            "rust_stemmers",
            "unicode_normalization",
            "unicode_segmentation",
        ],
        modules: BASE,
    },
    Row {
        path: "adapters/llm",
        crates: &[
            "async_openai",
            "http",
            "reqwest",
            "rustls",
            "serde",
            "serde_json",
            "tower",
        ],
        modules: BASE,
    },
    Row {
        path: "adapters/onnx",
        crates: &["ort", "tokenizers", "serde", "toml"],
        modules: &[
            "error",
            "fusion",
            "model",
            "tenancy",
            "spi",
            "adapters::file_digest",
        ],
    },
    Row {
        path: "adapters/parse",
        crates: &[],
        modules: BASE,
    },
    Row {
        path: "adapters/qdrant",
        crates: &["qdrant_client", "prost", "uuid"],
        modules: STORES,
    },
    Row {
        path: "adapters/payload_names.rs",
        crates: &[],
        modules: &[],
    },
    Row {
        path: "adapters/sqlite",
        crates: &["sqlx", "serde_json", "uuid"],
        modules: SQL,
    },
    Row {
        path: "adapters/postgres",
        crates: &["sqlx", "serde_json", "uuid"],
        modules: SQL,
    },
    Row {
        path: "adapters/registry_rules.rs",
        crates: &["sqlx", "serde_json"],
        modules: SQL,
    },
    Row {
        path: "adapters/registry_rows.rs",
        crates: &["sqlx", "serde_json"],
        modules: SQL,
    },
    Row {
        path: "adapters/retention_sql.rs",
        crates: &[],
        modules: SQL,
    },
    Row {
        path: "adapters/retention_statements.rs",
        crates: &["sqlx", "serde_json"],
        modules: SQL,
    },
    Row {
        path: "adapters/rebuild_statements.rs",
        crates: &["sqlx", "serde_json"],
        modules: SQL,
    },
    Row {
        path: "adapters/registry_statements.rs",
        crates: &["sqlx", "serde_json"],
        modules: SQL,
    },
    Row {
        path: "adapters/tracker_analysis.rs",
        crates: &["sqlx"],
        modules: SQL,
    },
    Row {
        path: "adapters/tracker_analysis_sql.rs",
        crates: &[],
        modules: SQL,
    },
    Row {
        path: "adapters/tracker_json.rs",
        crates: &["serde", "serde_json"],
        modules: SQL,
    },
    Row {
        path: "adapters/tracker_purging.rs",
        crates: &["sqlx"],
        modules: SQL,
    },
    Row {
        path: "adapters/tracker_readers.rs",
        crates: &["sqlx", "uuid"],
        modules: SQL,
    },
    Row {
        path: "adapters/tracker_rows.rs",
        crates: &["uuid"],
        modules: SQL,
    },
    Row {
        path: "adapters/tracker_sql.rs",
        crates: &[],
        modules: SQL,
    },
    Row {
        path: "adapters/tracker_statements.rs",
        crates: &["sqlx", "uuid"],
        modules: SQL,
    },
    Row {
        path: "adapters/metadata_json.rs",
        crates: &["serde", "serde_json"],
        modules: &["error", "model"],
    },
    Row {
        path: "adapters/result_json.rs",
        crates: &["serde", "serde_json"],
        modules: &["error", "model"],
    },
    Row {
        path: "wire",
        crates: &[
            "base64",
            "prost",
            "pbjson",
            "pbjson_types",
            "serde",
            "serde_json",
            "jiff",
        ],
        modules: BASE,
    },
    Row {
        path: "config",
        crates: &["config", "serde"],
        modules: &["error", "model", "retention"],
    },
    Row {
        path: "telemetry",
        crates: &[
            "axum",
            "opentelemetry",
            "opentelemetry_otlp",
            "opentelemetry_prometheus",
            "opentelemetry_sdk",
            "prometheus",
            "tokio_util",
            "tracing_opentelemetry",
            "tracing_subscriber",
        ],
        modules: &["error"],
    },
    Row {
        path: "transport/nats",
        crates: &[
            "async_nats",
            "bytes",
            "governor",
            "jiff",
            "prost",
            "serde",
            "serde_json",
            "sha2",
            "tokio_util",
            "uuid",
        ],
        modules: &[
            "error",
            "model",
            "spi",
            "tenancy",
            "ingest",
            "retention",
            "telemetry",
            "tracking",
            "wire",
        ],
    },
    Row {
        path: "worker",
        crates: &["tokio_util"],
        modules: &[
            "error",
            "model",
            "spi",
            "tenancy",
            "ingest",
            "retention",
            "telemetry",
            "tracking",
            "transport",
            "wire",
        ],
    },
];
