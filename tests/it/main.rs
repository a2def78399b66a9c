//! The real program against a real nats-server, driven by a client that knows only the wire.

#[path = "../support/chat_server.rs"]
mod chat_server;
mod harness;
#[path = "../support/hub_server.rs"]
mod hub_server;
#[path = "../support/postgres.rs"]
mod postgres_server;
// Its fault switches are for the store's own tests.
#[allow(dead_code, unused_imports)]
#[path = "../support/qdrant_server/mod.rs"]
mod qdrant_server;

mod admin;
mod blobs;
mod canary;
mod chaos;
mod cluster;
mod codes;
mod command_line;
mod drain;
mod duplicates;
mod evaluation;
mod fairness;
mod fault_points;
mod feedback;
mod isolation;
mod kill;
mod lexical;
mod limits;
mod odd_documents;
mod otlp;
mod outage;
mod permissions;
mod pull;
mod races;
mod reindex;
mod reply_addresses;
mod results;
mod retention;
mod retrieval;
mod setup;
mod stages;
mod stages_expansion;
mod statistics;
mod tenant_tokens;
mod tracking;
mod tracking_bench;
mod tracking_faults;
mod tracking_odd;
