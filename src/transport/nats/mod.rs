//! NATS: the only module that names `async_nats`.
//!
//! Handlers decode, call and encode; what a request means is decided elsewhere.

mod admin;
mod admission;
mod blobs;
mod catalog;
mod client;
mod connect;
mod dead_letter;
mod discovery;
mod disposition;
mod endpoint_stats;
mod feedback;
mod gate;
mod headers;
mod ingest_consumer;
mod ingest_job;
mod lanes;
mod overview;
mod parking;
mod reply;
mod request_limits;
mod responder;
mod retrieve;
mod setup;
mod subjects;
mod topology;
mod tracking_batch;
mod tracking_consumer;
mod tracking_publisher;
mod tracking_topology;
mod turns;
mod verify;
mod verify_tracking;

pub use admin::AdminEndpoint;
pub use blobs::{NatsBlobStore, bucket, create_bucket};
pub use catalog::{CatalogEndpoint, CatalogParts};
pub use client::{Client, JobReceipt, Reply, Results, ask_operator};
pub use connect::{Connection, connect};
pub use discovery::Discovery;
pub use disposition::{Disposition, MARGIN, MAX_ATTEMPTS, SHORTEST_DELAY, disposition};
pub use endpoint_stats::EndpointStats;
pub use feedback::{FeedbackEndpoint, FeedbackParts};
pub use ingest_consumer::{IngestConsumer, IngestContext};
pub use overview::{Overview, overview};
pub use reply::ReplyRule;
pub use request_limits::{Place, RequestLimits};
pub use responder::{Call, Caller, Endpoint, Responder, ResponderContext};
pub use retrieve::{RetrieveEndpoint, RetrieveParts};
pub use setup::{Action, Change, setup};
pub use topology::{ACK_WAIT, LANES};
pub use tracking_consumer::{TrackingConsumer, TrackingContext};
pub use tracking_publisher::{TrackingConfig, TrackingGuarantee, TrackingPublisher, TrackingPump};
pub use verify::verify;
