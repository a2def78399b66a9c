//! The retention role: takes ticks, and carries out runs whoever ordered them. Must not know what a run does.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::runtime::{LEFT_BEHIND_EVERY, WorkerParts};
use crate::telemetry::Metrics;
use crate::transport::nats::{RetentionDesk, Ticks};

/// Starts the role's tasks.
pub(super) fn start(parts: &WorkerParts, running: &mut JoinSet<()>, stop: &CancellationToken) {
    let ticks = Ticks {
        connection: parts.connection.clone(),
        registry: Arc::clone(&parts.desk.registry),
        ordered: Arc::clone(&parts.desk.ordered),
    };
    running.spawn(ticks.run(stop.clone()));
    if let Some(schedule) = &parts.own_ticks {
        let connection = parts.connection.clone();
        running.spawn(Ticks::publish(connection, schedule.clone(), stop.clone()));
    }
    running.spawn(keep(
        parts.desk.clone(),
        parts.metrics.clone(),
        stop.clone(),
    ));
}

/// Carries out runs: those ordered here at once, those that another worker left behind when it looks. No error ends it.
async fn keep(desk: RetentionDesk, metrics: Metrics, stop: CancellationToken) {
    let mut told = String::new();
    while !stop.is_cancelled() {
        match desk.retention.work(&|| stop.is_cancelled()).await {
            Ok(ended) => {
                told.clear();
                for (run, state) in ended {
                    let retrievals = run.counts.tracking.retrievals;
                    let removed = [
                        ("retrievals", retrievals),
                        ("documents", run.counts.expired),
                        ("tombstones", run.counts.tombstones),
                    ];
                    metrics.retention(state.name(), &removed);
                    let (key, state) = (run.key, state.name());
                    tracing::info!(run = key, state, retrievals, "a retention run ended");
                }
            }
            Err(error) => {
                if told != error.message() {
                    metrics.retention("error", &[]);
                    tracing::warn!(error = %error.chain(), "retention stopped; it goes on later");
                    error.message().clone_into(&mut told);
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = desk.ordered.notified() => {}
            () = tokio::time::sleep(LEFT_BEHIND_EVERY) => {}
        }
    }
}
