//! The sections as they stand in a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Secret;

/// The whole configuration; `default.toml` says what each key means.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Config {
    pub data_dir: PathBuf,
    pub nats: NatsSection,
    pub onnx: OnnxSection,
    pub models: ModelsSection,
    pub store: StoreSection,
    pub tenancy: TenancySection,
    pub sql: SqlSection,
    pub worker: WorkerSection,
    pub retrieval: RetrievalSection,
    pub corrective: CorrectiveSection,
    pub reranking: RerankingSection,
    pub expansion: ExpansionSection,
    pub llm: LlmSection,
    pub inference: InferenceSection,
    pub tracking: TrackingSection,
    pub retention: RetentionSection,
    #[serde(default)]
    pub limits: LimitsSection,
    pub telemetry: TelemetrySection,
}

/// How to reach NATS.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct NatsSection {
    #[serde(serialize_with = "super::secret::url_without_password")]
    pub url: String,
    pub credentials: PathBuf,
    pub reply_prefixes: Vec<String>,
    pub replicas: usize,
    pub server: PathBuf,
}

/// Where ONNX Runtime is.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct OnnxSection {
    pub library: PathBuf,
}

/// Which models.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ModelsSection {
    pub dir: PathBuf,
    pub dense: String,
    pub sparse: String,
    pub cross_encoder: String,
    pub previous: Vec<String>,
    pub hub_endpoint: String,
    pub hub_token: Secret,
}

/// Which store.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct StoreSection {
    pub kind: StoreKind,
    pub qdrant: QdrantSection,
}

/// The kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum StoreKind {
    Edge,
    Qdrant,
}

/// How to reach a Qdrant cluster.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct QdrantSection {
    pub url: String,
    pub api_key: Secret,
    pub collection_prefix: String,
    pub timeout_ms: u32,
    pub shards: u32,
    pub replicas: u32,
    pub quantization: QuantizationKind,
    pub hnsw_m: u32,
    pub hnsw_ef_construct: u32,
    pub hnsw_ef_search: u32,
}

/// How vectors are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum QuantizationKind {
    None,
    Scalar,
    Binary,
}

/// How tenants share collections.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TenancySection {
    pub strategy: TenancyKind,
}

/// A tenancy strategy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum TenancyKind {
    Separate,
    Shared,
}

/// Which database.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct SqlSection {
    pub url: Secret,
    pub max_connections: u32,
}

/// What a worker does, and how much of it at once.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct WorkerSection {
    pub roles: Vec<RoleName>,
    pub ingest_concurrency: usize,
    pub retrieve_concurrency: usize,
    pub max_blob_bytes: u64,
}

/// A role of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum RoleName {
    Ingest,
    Retrieve,
    Tracker,
    Retention,
}

/// How retrieval works.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct RetrievalSection {
    pub legs: Vec<LegName>,
    pub languages: Vec<String>,
    pub depth: u32,
    pub rrf_k: u32,
    pub fusion: FusionKind,
    pub default_timeout_ms: u32,
    pub max_timeout_ms: u32,
}

/// A leg by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum LegName {
    Dense,
    Sparse,
    Bm25,
}

/// How legs are fused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum FusionKind {
    Rrf,
    Dbsf,
}

/// Corrective grading.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct CorrectiveSection {
    pub mode: CorrectiveMode,
    pub pool: u32,
    pub min_correct: u32,
    pub depth_factor: u32,
}

/// What corrective grading does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum CorrectiveMode {
    Off,
    Grade,
    Filter,
}

/// Reranking.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct RerankingSection {
    pub enabled: bool,
    pub pool: u32,
}

/// Query expansion.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ExpansionSection {
    pub strategy: ExpansionStrategy,
    pub hypotheticals: u32,
    pub timeout_ms: u32,
}

/// How queries are expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ExpansionStrategy {
    None,
    Template,
    Hyde,
    StepBack,
    HydeStepBack,
}

/// The chat endpoint of query expansion.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct LlmSection {
    pub base_url: String,
    pub model: String,
    pub api_key: Secret,
    pub allow_remote: bool,
}

/// The inference threads.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct InferenceSection {
    pub threads: usize,
    pub max_pairs_per_request: u32,
}

/// Retrieval tracking.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TrackingSection {
    pub enabled: bool,
    pub guarantee: Guarantee,
    pub buffer: usize,
    pub hash_queries: bool,
    pub hash_key: Secret,
}

/// What happens when a retrieval can't be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Guarantee {
    BestEffort,
    Required,
}

/// Retention.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct RetentionSection {
    pub days: u32,
    pub min_days: u32,
    pub schedule: String,
    pub tick_source: TickSource,
    pub max_share: f64,
    pub batch_rows: u32,
    pub max_run_minutes: u32,
    #[serde(default)]
    pub tenants: BTreeMap<String, TenantRetention>,
}

/// Who makes the ticks of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum TickSource {
    Auto,
    Server,
    Workers,
}

/// A tenant's own windows.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct TenantRetention {
    pub days: Option<u32>,
    pub corpora: BTreeMap<String, u32>,
}

/// Limits by tenant.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct LimitsSection {
    pub default: LimitSection,
    pub tenants: BTreeMap<String, LimitSection>,
}

/// One tenant's limits; unset = none.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct LimitSection {
    pub in_flight: Option<u32>,
    pub requests_per_second: Option<f64>,
    pub documents: Option<u64>,
    pub expansion: Option<bool>,
}

/// Telemetry.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TelemetrySection {
    pub otlp_endpoint: String,
    pub http_listen: String,
}
