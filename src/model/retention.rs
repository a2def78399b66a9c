//! What retention is about: windows, legal holds, runs and what they did.
//!
//! Must not know a clock, a schedule or a database.

use std::collections::BTreeMap;

use super::{CorpusName, CorpusRef, DocumentId, TenantId, Timestamp, TrackingCounts};

const DAY: i64 = 86_400_000_000;

/// For how many days retrievals are kept: the corpus' own number, else its tenant's, else everybody's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionWindows {
    /// Everybody's.
    pub days: u32,
    /// By tenant and corpus; no corpus = all of the tenant's others.
    pub own: BTreeMap<(String, Option<String>), u32>,
    /// No scheduled run takes a shorter one.
    pub min_days: u32,
}

impl RetentionWindows {
    /// The days of a corpus.
    pub fn days_of(&self, corpus: &CorpusRef) -> u32 {
        let tenant = corpus.tenant.as_str().to_owned();
        let name = corpus.corpus.as_str().to_owned();
        let own = self.own.get(&(tenant.clone(), Some(name)));
        let own = own.or_else(|| self.own.get(&(tenant, None)));
        own.copied().unwrap_or(self.days)
    }
}

/// The moment before which retrievals go: so many days before `now`.
pub fn cutoff(now: Timestamp, days: u32) -> Timestamp {
    let window = i64::from(days).saturating_mul(DAY);
    Timestamp::from_micros(now.as_micros().saturating_sub(window))
}

/// What a legal hold keeps: all of a tenant's, a corpus, or a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HoldScope {
    /// Whose.
    pub tenant: TenantId,
    /// In which corpus; `None` = in all.
    pub corpus: Option<CorpusName>,
    /// Which document; `None` = all.
    pub document: Option<DocumentId>,
}

impl HoldScope {
    /// Whether the whole corpus is held.
    pub fn covers(&self, corpus: &CorpusRef) -> bool {
        self.document.is_none() && self.touches(corpus)
    }

    /// Whether a document is held.
    pub fn covers_document(&self, corpus: &CorpusRef, document: &DocumentId) -> bool {
        self.touches(corpus) && self.document.as_ref().is_none_or(|held| held == document)
    }

    /// Whether anything of the corpus is held.
    pub fn touches(&self, corpus: &CorpusRef) -> bool {
        self.tenant == corpus.tenant
            && self
                .corpus
                .as_ref()
                .is_none_or(|held| *held == corpus.corpus)
    }
}

/// A legal hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Its name.
    pub id: String,
    /// What it keeps.
    pub scope: HoldScope,
    /// Why.
    pub reason: String,
    /// Who asked for it.
    pub actor: String,
    /// Since when.
    pub since: Timestamp,
}

/// What a run is to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOrder {
    /// Only this tenant's; `None` = everybody's.
    pub tenant: Option<TenantId>,
    /// Only this corpus.
    pub corpus: Option<CorpusName>,
    /// This window in place of the configured ones.
    pub days: Option<u32>,
    /// Whether the guard and the shortest window don't count.
    pub force: bool,
    /// Who asked for it; empty = the schedule.
    pub actor: String,
}

impl RunOrder {
    /// Whether a corpus is meant.
    pub fn means(&self, corpus: &CorpusRef) -> bool {
        self.tenant.as_ref().is_none_or(|t| *t == corpus.tenant)
            && self.corpus.as_ref().is_none_or(|c| *c == corpus.corpus)
    }
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Nobody has begun, or whoever had begun is gone.
    Open,
    /// Everything was done.
    Done,
    /// The guard refused it; nothing was removed.
    Refused,
    /// Some of it failed; the rest was done.
    Failed,
}

impl RunState {
    /// Every state.
    pub const ALL: [RunState; 4] = [
        RunState::Open,
        RunState::Done,
        RunState::Refused,
        RunState::Failed,
    ];

    /// The stored name.
    pub const fn name(self) -> &'static str {
        match self {
            RunState::Open => "open",
            RunState::Done => "done",
            RunState::Refused => "refused",
            RunState::Failed => "failed",
        }
    }

    /// The state of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// A run: one purge by schedule or by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its key: the same for every delivery of the same tick.
    pub key: String,
    /// What it is to do.
    pub order: RunOrder,
    /// How it stands.
    pub state: RunState,
    /// The database's clock when it was ordered: cutoffs are reckoned from it, however often it is resumed.
    pub ordered_at: Timestamp,
    /// What it has removed so far.
    pub counts: RunCounts,
    /// What failed, was refused or was spared.
    pub notes: Vec<String>,
}

/// What a run removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunCounts {
    /// Retrievals and what hung on them.
    pub tracking: TrackingCounts,
    /// Documents that expired.
    pub expired: u64,
    /// Tombstones.
    pub tombstones: u64,
}

/// An administrative act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminAct {
    /// What was done, for example `hold.add`.
    pub action: String,
    /// Who did it; empty when not told.
    pub actor: String,
    /// Whose data.
    pub tenant: String,
    /// Which corpus; empty = all or none.
    pub corpus: String,
    /// Numbers and names, as JSON text.
    pub details: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus(tenant: &str, corpus: &str) -> CorpusRef {
        CorpusRef::new(
            TenantId::mint(tenant).expect("valid"),
            CorpusName::new(corpus).expect("valid"),
        )
    }

    #[test]
    fn the_nearest_window_counts() {
        let windows = RetentionWindows {
            days: 90,
            own: BTreeMap::from([
                (("a".into(), None), 30),
                (("a".into(), Some("c".into())), 7),
            ]),
            min_days: 1,
        };
        let days = |t, c| windows.days_of(&corpus(t, c));
        assert_eq!(
            (days("a", "c"), days("a", "d"), days("b", "c")),
            (7, 30, 90)
        );
    }

    #[test]
    fn a_cutoff_is_whole_days_before_and_never_wraps() {
        let now = Timestamp::from_micros(3 * DAY + 5);
        assert_eq!(cutoff(now, 2).as_micros(), DAY + 5);
        assert!(cutoff(now, u32::MAX).as_micros() < 0);
    }

    #[test]
    fn holds_cover_what_they_name_and_nobody_elses() {
        let document = |id| DocumentId::new(id).expect("valid");
        let of_corpus = HoldScope {
            tenant: TenantId::mint("a").expect("valid"),
            corpus: Some(CorpusName::new("c").expect("valid")),
            document: None,
        };
        assert!(of_corpus.covers(&corpus("a", "c")) && !of_corpus.covers(&corpus("a", "d")));
        assert!(!of_corpus.covers(&corpus("b", "c")));
        let of_document = HoldScope {
            document: Some(document("x")),
            ..of_corpus
        };
        assert!(!of_document.covers(&corpus("a", "c")));
        assert!(of_document.covers_document(&corpus("a", "c"), &document("x")));
        assert!(!of_document.covers_document(&corpus("a", "c"), &document("y")));
    }
}
