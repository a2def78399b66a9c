//! From the configuration to retention's windows and clock.

use crate::config::{Config, Schedule, TickSource};
use crate::error::Result;
use crate::model::RetentionWindows;

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
