//! The real program against a real nats-server, driven by a client that knows only the wire.

mod harness;

mod canary;
mod codes;
mod drain;
mod duplicates;
mod fault_points;
mod isolation;
mod kill;
mod odd_documents;
mod permissions;
mod races;
mod reply_addresses;
mod results;
mod setup;
mod tenant_tokens;
