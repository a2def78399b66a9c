//! Purges of retrievals: corpus by corpus, each by its own window, behind one guard over all of them.
//!
//! Must not know documents.

use std::time::Duration;

use super::{GoOn, Progress, Retention};
use crate::error::Result;
use crate::model::{
    CorpusRef, DocumentId, HoldScope, PurgeForecast, PurgeScope, RecordPosition, RunOrder,
    RunState, Timestamp, cutoff,
};

/// Between two batches, so that inserts that waited come through.
const PAUSE: Duration = Duration::from_millis(2);

/// What a run would do, for dry runs and for the guard.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forecast {
    /// By corpus.
    pub corpora: Vec<(CorpusRef, PurgeForecast)>,
    /// What would be refused, spared or can't be told.
    pub notes: Vec<String>,
    /// Whether the shortest window forbids a part of it.
    pub too_short: bool,
    /// Whether something can't be told.
    pub failed: bool,
}

impl Forecast {
    /// Retrievals that would go.
    pub fn removed(&self) -> u64 {
        self.corpora.iter().map(|(_, f)| f.removed.retrievals).sum()
    }

    /// All retrievals there are.
    pub fn total(&self) -> u64 {
        self.corpora.iter().map(|(_, f)| f.total).sum()
    }

    /// The share that would go, 0 to 1.
    pub fn share(&self) -> f64 {
        match self.total() {
            0 => 0.0,
            total => self.removed() as f64 / total as f64,
        }
    }
}

impl Retention {
    /// What an order would do now, without doing it.
    ///
    /// # Errors
    /// `DependencyFailed` when nothing at all can be read.
    pub async fn forecast(&self, order: &RunOrder) -> Result<Forecast> {
        let now = self.parts.tracker.now().await?;
        self.plan(order, now).await
    }

    /// Whether the guard lets a run through, and what it says if not.
    pub fn refusal(&self, order: &RunOrder, forecast: &Forecast) -> Option<String> {
        if order.force || forecast.share() <= self.parts.max_share {
            return None;
        }
        Some(format!(
            "refused: {} of {} retrievals would have been removed, more than retention.max_share = {}",
            forecast.removed(),
            forecast.total(),
            self.parts.max_share
        ))
    }

    async fn plan(&self, order: &RunOrder, now: Timestamp) -> Result<Forecast> {
        let mut forecast = Forecast::default();
        for corpus in self.parts.tracker.tracked_corpora().await? {
            if !order.means(&corpus) {
                continue;
            }
            let looked = async {
                let Some(scope) = self.scope(order, &corpus, now).await? else {
                    return Ok(None);
                };
                Ok(Some(self.parts.tracker.purge_forecast(&scope).await?))
            };
            match looked.await {
                Ok(Some(due)) => self.judge(order, corpus, due, &mut forecast),
                Ok(None) => forecast
                    .notes
                    .push(format!("{}: kept by a legal hold", named(&corpus))),
                Err(error) => {
                    forecast.failed = true;
                    let error: crate::error::Error = error;
                    forecast
                        .notes
                        .push(format!("{}: {}", named(&corpus), error.message()));
                }
            }
        }
        Ok(forecast)
    }

    fn judge(
        &self,
        order: &RunOrder,
        corpus: CorpusRef,
        due: PurgeForecast,
        forecast: &mut Forecast,
    ) {
        let days = self.days(order, &corpus);
        if due.held > 0 {
            let note = format!("{}: a legal hold keeps {}", named(&corpus), due.held);
            forecast.notes.push(note);
        }
        if days < self.parts.windows.min_days && !order.force {
            forecast.too_short = true;
            forecast.notes.push(format!(
                "{}: refused: a window of {days} days is shorter than retention.min_days = {}; {} of {} retrievals would have been removed",
                named(&corpus), self.parts.windows.min_days, due.removed.retrievals, due.total
            ));
            return;
        }
        forecast.corpora.push((corpus, due));
    }

    fn days(&self, order: &RunOrder, corpus: &CorpusRef) -> u32 {
        order
            .days
            .unwrap_or_else(|| self.parts.windows.days_of(corpus))
    }

    /// What may go of a corpus as holds stand now; `None` when all of it is held.
    async fn scope(
        &self,
        order: &RunOrder,
        corpus: &CorpusRef,
        now: Timestamp,
    ) -> Result<Option<PurgeScope>> {
        let holds = self.parts.registry.holds(&corpus.tenant).await?;
        if holds.iter().any(|hold| hold.scope.covers(corpus)) {
            return Ok(None);
        }
        let touching = |scope: &HoldScope| scope.touches(corpus);
        let held: Vec<DocumentId> = holds
            .into_iter()
            .filter(|hold| touching(&hold.scope))
            .filter_map(|hold| hold.scope.document)
            .collect();
        let before = cutoff(now, self.days(order, corpus));
        Ok(Some(PurgeScope::of_corpus(corpus, before).sparing(held)))
    }

    /// The purges of a run. What fails with one corpus is noted, and the others go on.
    pub(super) async fn purge(&self, progress: &mut Progress<'_>) -> Result<GoOn> {
        let (order, now) = (&progress.run.order, progress.run.ordered_at);
        let forecast = self.plan(order, now).await?;
        for note in &forecast.notes {
            self.note(progress, note).await?;
        }
        if forecast.failed {
            progress.state = RunState::Failed;
        }
        if forecast.too_short {
            progress.state = RunState::Refused;
        }
        if let Some(refusal) = self.refusal(order, &forecast) {
            tracing::warn!(run = progress.run.key, "retention: {refusal}");
            self.note(progress, &refusal).await?;
            progress.state = RunState::Refused;
            return Ok(GoOn::Yes);
        }
        for (corpus, due) in &forecast.corpora {
            if due.removed.retrievals == 0 {
                continue;
            }
            match self.purge_corpus(progress, corpus).await {
                Ok(GoOn::Yes) => {}
                Ok(other) => return Ok(other),
                Err(error) => {
                    tracing::warn!(error = %error.chain(), "retention: a corpus could not be purged");
                    let note = format!("{}: {}", named(corpus), error.message());
                    self.note(progress, &note).await?;
                    progress.state = RunState::Failed;
                }
            }
        }
        Ok(GoOn::Yes)
    }

    async fn purge_corpus(&self, progress: &Progress<'_>, corpus: &CorpusRef) -> Result<GoOn> {
        let (order, now) = (&progress.run.order, progress.run.ordered_at);
        let mut after: Option<RecordPosition> = None;
        loop {
            let go_on = self.go_on(progress).await?;
            if go_on != GoOn::Yes {
                return Ok(go_on);
            }
            // Holds may come while a purge runs: each batch looks.
            let Some(scope) = self.scope(order, corpus, now).await? else {
                return Ok(GoOn::Yes);
            };
            let scope = scope.counted_by(&progress.run.key);
            let tracker = &self.parts.tracker;
            let batch = tracker.purge_batch(&scope, after, self.parts.batch).await?;
            after = batch.next;
            if after.is_none() {
                return Ok(GoOn::Yes);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Names of tenants and corpora are no secrets.
fn named(corpus: &CorpusRef) -> String {
    format!("{}/{}", corpus.tenant, corpus.corpus)
}
