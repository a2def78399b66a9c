//! Which tracked retrievals are meant: windows of time, places to read on from, and what a purge may remove.
//!
//! Must not know how anything is stored.

use super::{
    CorpusName, CorpusRef, DocumentId, Feedback, RetrievalId, RetrievalRecord, TenantId, Timestamp,
    TrackedQuery,
};

/// A half-open span of time, `[since, until)`. A retrieval, its chunks and its feedback are in it by when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeWindow {
    /// The first moment in it; `None` = from the beginning.
    pub since: Option<Timestamp>,
    /// The first moment after it; `None` = without an end.
    pub until: Option<Timestamp>,
}

impl TimeWindow {
    /// All time.
    pub const ALL: Self = Self {
        since: None,
        until: None,
    };

    /// From `since` up to but not including `until`.
    pub const fn between(since: Timestamp, until: Timestamp) -> Self {
        Self {
            since: Some(since),
            until: Some(until),
        }
    }

    /// Both ends in microseconds; open ends are the ends of the range, which no clock reaches.
    pub fn bounds(self) -> (i64, i64) {
        (
            self.since.map_or(i64::MIN, Timestamp::as_micros),
            self.until.map_or(i64::MAX, Timestamp::as_micros),
        )
    }

    /// Whether the moment is in it.
    pub fn contains(self, at: Timestamp) -> bool {
        let (since, until) = self.bounds();
        (since..until).contains(&at.as_micros())
    }
}

/// Where a list of retrievals is read on from: retrievals are listed by time, then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordPosition {
    /// The time of the last one read.
    pub at: Timestamp,
    /// Its id.
    pub id: RetrievalId,
}

impl RecordPosition {
    /// The position of a record.
    pub fn of(record: &RetrievalRecord) -> Self {
        Self {
            at: record.at,
            id: record.id,
        }
    }
}

/// A judgement beside the question it was given on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedQuery {
    /// Where was asked.
    pub corpus: CorpusName,
    /// When was asked.
    pub retrieved_at: Timestamp,
    /// The question.
    pub query: TrackedQuery,
    /// The judgement.
    pub feedback: Feedback,
}

impl JudgedQuery {
    /// Where to read on from.
    pub fn position(&self) -> (RecordPosition, DocumentId) {
        let position = RecordPosition {
            at: self.retrieved_at,
            id: self.feedback.retrieval_id,
        };
        (position, self.feedback.document_id.clone())
    }
}

/// What a purge may remove: retrievals of one tenant, with all that hangs on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeScope {
    /// Whose.
    pub tenant: TenantId,
    /// Of one corpus; `None` = of all.
    pub corpus: Option<CorpusName>,
    /// Asked strictly before; `None` = whenever.
    pub cutoff: Option<Timestamp>,
    /// Retrievals whose reply held one of these documents stay: evidence under a legal hold.
    pub held: Vec<DocumentId>,
    /// The run whose counters each removal adds to, in its own transaction; `None` = nobody counts.
    pub run: Option<String>,
}

impl PurgeScope {
    /// What a tenant asked before the cutoff.
    pub fn of_tenant(tenant: &TenantId, cutoff: Timestamp) -> Self {
        Self {
            cutoff: Some(cutoff),
            ..Self::everything(tenant)
        }
    }

    /// What was asked of a corpus before the cutoff.
    pub fn of_corpus(corpus: &CorpusRef, cutoff: Timestamp) -> Self {
        Self {
            corpus: Some(corpus.corpus.clone()),
            ..Self::of_tenant(&corpus.tenant, cutoff)
        }
    }

    /// All that is kept of a tenant: to forget it.
    pub fn everything(tenant: &TenantId) -> Self {
        Self {
            tenant: tenant.clone(),
            corpus: None,
            cutoff: None,
            held: Vec::new(),
            run: None,
        }
    }

    /// The same, counted by this run.
    #[must_use]
    pub fn counted_by(mut self, run: &str) -> Self {
        self.run = Some(run.to_owned());
        self
    }

    /// The same, sparing what held these documents.
    #[must_use]
    pub fn sparing(mut self, held: Vec<DocumentId>) -> Self {
        self.held = held;
        self
    }
}

/// Rows by table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrackingCounts {
    /// Retrievals.
    pub retrievals: u64,
    /// Their chunks, dropped ones too.
    pub chunks: u64,
    /// The documents of their replies.
    pub documents: u64,
    /// Judgements on them.
    pub feedback: u64,
}

impl TrackingCounts {
    /// Adds what another batch counted.
    pub fn add(&mut self, other: Self) {
        self.retrievals += other.retrievals;
        self.chunks += other.chunks;
        self.documents += other.documents;
        self.feedback += other.feedback;
    }
}

/// What a purge would do, for dry runs and for the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurgeForecast {
    /// What would go.
    pub removed: TrackingCounts,
    /// Retrievals before the cutoff that a hold would spare.
    pub held: u64,
    /// All retrievals of the tenant, or of the corpus where the scope names one, whenever they were asked.
    pub total: u64,
}

impl PurgeForecast {
    /// The share of the retrievals that would go, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.total == 0 {
            0.0
        } else {
            self.removed.retrievals as f64 / self.total as f64
        }
    }
}

/// What one bounded batch of a purge did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeBatch {
    /// What went.
    pub removed: TrackingCounts,
    /// Where the next batch begins; `None` = nothing is left to do.
    pub next: Option<RecordPosition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_half_open() {
        let at = Timestamp::from_micros;
        let window = TimeWindow::between(at(5), at(7));
        let inside: Vec<i64> = (3..9).filter(|n| window.contains(at(*n))).collect();
        assert_eq!(inside, [5, 6]);
        assert!(TimeWindow::ALL.contains(at(-1)) && TimeWindow::ALL.contains(at(i64::MAX - 1)));
    }

    #[test]
    fn the_share_of_nothing_is_nothing() {
        assert_eq!(PurgeForecast::default().share(), 0.0);
        let mut half = PurgeForecast {
            total: 4,
            ..PurgeForecast::default()
        };
        half.removed.retrievals = 2;
        assert_eq!(half.share(), 0.5);
    }
}
