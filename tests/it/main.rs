//! The real program against a real nats-server, driven by a client that knows only the wire.

mod harness;

mod canary;
mod duplicates;
mod isolation;
mod permissions;
mod reply_addresses;
mod setup;
mod tenant_tokens;
