//! What keeps the tracker role from its work, said exactly. Replies need none of it, so ingest and retrieval don't look.

use super::connect::Connection;
use super::tracking_topology::{TRACKING, consumer, stream};
use super::verify::{consumer_problems, stream_problems};

/// What is missing or differs; empty = nothing.
pub(super) async fn verify_tracking(connection: &Connection) -> Vec<String> {
    let wanted = stream(connection.max_payload(), 1);
    let problems = match stream_problems(connection, &wanted).await {
        Ok(_) => Vec::new(),
        Err(problems) => problems,
    };
    if !problems.is_empty() {
        return problems;
    }
    match connection.jetstream.get_stream_no_info(TRACKING).await {
        Ok(stream) => consumer_problems(&stream, &consumer()).await,
        Err(error) => vec![format!("stream {TRACKING} can't be read: {error}")],
    }
}
