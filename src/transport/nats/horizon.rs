//! Which jobs may still come, read from the streams. Must not know tombstones.

use std::time::Duration;

use async_trait::async_trait;

use super::connect::Connection;
use super::topology::{DEAD, INGEST};
use crate::error::{Error, Result};
use crate::spi::{JobHorizon, JobSource};

/// However short dead letters are kept, a job that was just buried may be on its way back.
const LEAST: Duration = Duration::from_secs(86_400);

/// The ingest stream and its dead letters.
#[derive(Debug, Clone)]
pub struct NatsJobs(pub Connection);

impl NatsJobs {
    /// The sequence of the newest job that was ever stored.
    ///
    /// # Errors
    /// `DependencyFailed`.
    pub(super) async fn last_sequence(&self) -> Result<u64> {
        let ingest = self.0.jetstream.get_stream(INGEST).await;
        let ingest = ingest.map_err(|e| Error::dependency("the job stream can't be read", e))?;
        Ok(ingest.cached_info().state.last_sequence)
    }
}

#[async_trait]
impl JobSource for NatsJobs {
    /// Jobs wait from the first stored one on. Dead letters, which keep their jobs' sequences when they are replayed, are
    /// kept for so long; for ever = it can't be told.
    async fn horizon(&self) -> Result<Option<JobHorizon>> {
        let unread = |e| Error::dependency("the job streams can't be read", e);
        let jetstream = &self.0.jetstream;
        let dead = jetstream.get_stream(DEAD).await.map_err(unread)?;
        let dead = dead.cached_info();
        if dead.config.max_age.is_zero() && dead.state.messages > 0 {
            return Ok(None);
        }
        let ingest = jetstream.get_stream(INGEST).await.map_err(unread)?;
        let state = &ingest.cached_info().state;
        let below = match state.messages {
            0 => state.last_sequence + 1,
            _ => state.first_sequence,
        };
        Ok(Some(JobHorizon {
            below,
            replayable: dead.config.max_age.max(LEAST),
        }))
    }
}
