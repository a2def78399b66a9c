//! From the configuration to retention: its windows, its clock, its parts.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::{Opened, tenancy};
use crate::config::{Config, TickSource};
use crate::error::Result;
use crate::ingest::{Forgetter, IngestProcessor};
use crate::model::RetentionWindows;
use crate::retention::{Retention, RetentionParts, Schedule};
use crate::transport::nats::{ACK_WAIT, Connection, NatsJobs, RetentionDesk};

/// The windows of every tenant and corpus.
pub(super) fn windows(config: &Config) -> RetentionWindows {
    let mut own = std::collections::BTreeMap::new();
    for (tenant, section) in &config.retention.tenants {
        if let Some(days) = section.days {
            own.insert((tenant.clone(), None), days);
        }
        for (corpus, days) in &section.corpora {
            own.insert((tenant.clone(), Some(corpus.clone())), *days);
        }
    }
    RetentionWindows {
        days: config.retention.days,
        own,
        min_days: config.retention.min_days,
    }
}

/// The schedule, when workers make the ticks.
///
/// # Errors
/// `InvalidField` on `retention.schedule`.
pub(super) fn own_ticks(config: &Config, server_repeats: bool) -> Result<Option<Schedule>> {
    let own = match config.retention.tick_source {
        TickSource::Server => false,
        TickSource::Workers => true,
        TickSource::Auto => !server_repeats,
    };
    own.then(|| Schedule::parse(&config.retention.schedule))
        .transpose()
}

/// What operators' requests about retention, and its runs, are carried out with.
pub(super) fn desk(
    config: &Config,
    opened: &Opened,
    processor: &Arc<IngestProcessor>,
    connection: &Connection,
    worker: &str,
) -> RetentionDesk {
    let jobs = NatsJobs(connection.clone());
    let retention = Retention::new(RetentionParts {
        registry: Arc::clone(&opened.retention),
        tracker: Arc::clone(&opened.tracker),
        store: Arc::clone(&opened.store),
        jobs: Arc::new(jobs.clone()),
        tenancy: tenancy(config),
        windows: windows(config),
        max_share: config.retention.max_share,
        batch: config.retention.batch_rows,
        budget: Duration::from_secs(60 * u64::from(config.retention.max_run_minutes)),
        owner: worker.to_owned(),
        lease: ACK_WAIT,
    });
    RetentionDesk {
        retention,
        registry: Arc::clone(&opened.retention),
        tracker: Arc::clone(&opened.tracker),
        forgetter: Forgetter {
            processor: Arc::clone(processor),
            documents: Arc::clone(&opened.registry),
            retention: Arc::clone(&opened.retention),
            tracker: Arc::clone(&opened.tracker),
        },
        jobs,
        ordered: Arc::new(Notify::new()),
    }
}
