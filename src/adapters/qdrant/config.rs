//! What can be set about the store on a server. Must not know where a setting came from.

use std::fmt;
use std::time::Duration;

/// How the server compresses dense vectors in memory; found candidates are scored again with the whole vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quantization {
    /// Not at all.
    #[default]
    None,
    /// To 8-bit integers: a quarter of the memory.
    Scalar,
    /// To one bit a dimension: for wide vectors of models that bear it.
    Binary,
}

/// The graph index of the dense vectors. What isn't set is the server's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HnswOptions {
    /// Links of a node.
    pub m: Option<u32>,
    /// Candidates while the graph is built.
    pub ef_construct: Option<u32>,
    /// Candidates while a query is answered.
    pub ef_search: Option<u32>,
    /// Links of a node inside each tenant's own graph, for shared collections.
    pub payload_m: Option<u32>,
}

/// Settings of a [`QdrantVectorStore`](super::QdrantVectorStore).
///
/// What shapes a collection (shards, replicas, HNSW, quantization) is applied when it is created, never to an
/// existing one.
#[derive(Clone, PartialEq, Eq)]
pub struct QdrantConfig {
    /// The gRPC address: `http://host:6334`, or `https://` for TLS with the system's root certificates.
    pub url: String,
    /// Sent with every call when set.
    pub api_key: Option<String>,
    /// Stands before every collection's name, so that installations can share a server. Mostly empty.
    pub collection_prefix: String,
    /// The time for one call to the server, its retries included; at least 2 s, because the server counts its own,
    /// shorter limit in whole seconds.
    pub timeout: Duration,
    /// Points of one upsert at most.
    pub upsert_points: usize,
    /// Encoded bytes of one upsert at most; a point that is larger alone goes alone.
    pub upsert_bytes: usize,
    /// Shards of a new collection; `None` = the server's default.
    pub shards: Option<u32>,
    /// Copies of each shard of a new collection; `None` = the server's default.
    pub replication_factor: Option<u32>,
    /// Compression of dense vectors in new collections.
    pub quantization: Quantization,
    /// The graph index of new collections, and how hard queries look.
    pub hnsw: HnswOptions,
}

impl QdrantConfig {
    /// The defaults for a server.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            api_key: None,
            collection_prefix: String::new(),
            timeout: Duration::from_secs(5),
            upsert_points: 128,
            upsert_bytes: 2 * 1024 * 1024,
            shards: None,
            replication_factor: None,
            quantization: Quantization::None,
            hnsw: HnswOptions::default(),
        }
    }

    /// Whether there may be copies, which operations must reach in one order. The server's default is not known here.
    pub(super) fn replicated(&self) -> bool {
        self.replication_factor != Some(1)
    }
}

/// Without the API key.
impl fmt::Debug for QdrantConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QdrantConfig")
            .field("url", &self.url)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
