//! What all stages of one request share: its time budget, its pair budget and what was computed already.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use super::Encoded;
use crate::error::{Error, Result};
use crate::model::{ChunkId, SparseVector};

/// The budgets and the memory of one request. Clones share them.
#[derive(Debug, Clone)]
pub struct RequestContext {
    deadline: Instant,
    pairs: Arc<PairBudget>,
    reserved_pairs: u32,
    memo: Arc<RequestMemo>,
}

impl RequestContext {
    /// A time budget that ends at `deadline`; pairs are unlimited.
    pub fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            pairs: Arc::new(PairBudget::new(u32::MAX, None)),
            reserved_pairs: 0,
            memo: Arc::default(),
        }
    }

    /// The same with at most `pairs` (query, chunk) pairs.
    #[must_use]
    pub fn with_pairs(mut self, pairs: u32) -> Self {
        self.pairs = Arc::new(PairBudget::new(pairs, None));
        self
    }

    /// The same with a part of the pairs that stages which divide the budget leave to an outer stage.
    #[must_use]
    pub fn reserving(mut self, pairs: u32) -> Self {
        self.reserved_pairs = pairs;
        self
    }

    /// One of `shares` contexts that divide what is left, so that what one sub-query may score never depends on how fast
    /// another was.
    #[must_use]
    pub fn share(&self, shares: u32) -> Self {
        let left = self.pairs.left().saturating_sub(self.reserved_pairs);
        let whole = Some(Arc::clone(&self.pairs));
        Self {
            pairs: Arc::new(PairBudget::new(left / shares.max(1), whole)),
            ..self.clone()
        }
    }

    /// When the budget ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What is left; zero when it is used up.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Fails when the budget is used up.
    ///
    /// # Errors
    /// `Timeout` naming the stage.
    pub fn check(&self, stage: &'static str) -> Result<()> {
        if self.remaining().is_zero() {
            Err(Error::timeout(stage))
        } else {
            Ok(())
        }
    }

    /// The pairs left.
    pub fn pairs(&self) -> &PairBudget {
        &self.pairs
    }

    /// What was computed already.
    pub fn memo(&self) -> &RequestMemo {
        &self.memo
    }
}

/// How many (query, chunk) pairs may still be scored.
#[derive(Debug)]
pub struct PairBudget {
    left: AtomicU32,
    /// A share is a part of it.
    whole: Option<Arc<PairBudget>>,
}

impl PairBudget {
    fn new(pairs: u32, whole: Option<Arc<PairBudget>>) -> Self {
        Self {
            left: AtomicU32::new(pairs),
            whole,
        }
    }

    /// What is left.
    pub fn left(&self) -> u32 {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether pairs that another sub-query has scored count too: in a share, where that is a matter of speed.
    pub fn counts_known(&self) -> bool {
        self.whole.is_some()
    }

    /// Takes up to `wanted`; returns how many it got.
    pub fn take(&self, wanted: u32) -> u32 {
        let took = |left: u32| Some(left - left.min(wanted));
        let before = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, took);
        before.unwrap_or_else(|left| left).min(wanted)
    }

    /// Notes that pairs taken from this budget go through the model: only then does a share cost the whole anything.
    pub fn run(&self, pairs: u32) {
        if let Some(whole) = &self.whole {
            whole.take(pairs);
            whole.run(pairs);
        }
    }
}

/// One version of a chunk.
pub type ChunkVersion = (ChunkId, u64);

/// Raw scores of chunks against one query text by one model.
pub type PairScores = HashMap<ChunkVersion, f32>;

/// What is shared under a key: (model, text).
type Cells<C> = Mutex<HashMap<(String, String), Arc<C>>>;

/// Texts that were encoded and pairs that were scored, so that nothing is computed twice in a request.
#[derive(Debug, Default)]
pub struct RequestMemo {
    /// Dense vectors by (model, text).
    pub dense: Memo<Encoded<Vec<f32>>>,
    /// Sparse vectors by (model, text).
    pub sparse: Memo<Encoded<SparseVector>>,
    scores: Cells<tokio::sync::Mutex<PairScores>>,
}

impl RequestMemo {
    /// Scores by (model, query text). Whoever holds the lock scores what is missing; sub-queries of the same text wait
    /// instead of scoring the same chunks.
    pub fn scores(&self, model: &str, query: &str) -> Arc<tokio::sync::Mutex<PairScores>> {
        cell(&self.scores, (model.to_owned(), query.to_owned()))
    }
}

/// Values by (model, text), each computed once.
#[derive(Debug)]
pub struct Memo<V> {
    cells: Cells<OnceCell<V>>,
}

impl<V> Default for Memo<V> {
    fn default() -> Self {
        Self {
            cells: Mutex::default(),
        }
    }
}

impl<V: Clone> Memo<V> {
    /// The known value, or what `compute` gives; with it, whether this call computed it. A failure is not kept.
    ///
    /// # Errors
    /// Those of `compute`.
    pub async fn get_or_compute<F>(
        &self,
        model: &str,
        text: &str,
        compute: impl FnOnce() -> F,
    ) -> Result<(V, bool)>
    where
        F: Future<Output = Result<V>>,
    {
        let cell = cell(&self.cells, (model.to_owned(), text.to_owned()));
        let mut computed = false;
        let value = cell
            .get_or_try_init(|| {
                computed = true;
                compute()
            })
            .await?
            .clone();
        Ok((value, computed))
    }
}

fn cell<C: Default>(cells: &Cells<C>, key: (String, String)) -> Arc<C> {
    let mut cells = cells.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(cells.entry(key).or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> RequestContext {
        RequestContext::until(Instant::now() + Duration::from_secs(60))
    }

    #[test]
    fn a_budget_gives_what_is_left() {
        let context = context().with_pairs(10);
        assert_eq!(context.pairs().take(4), 4);
        assert_eq!(context.clone().pairs().take(7), 6);
        assert_eq!(context.pairs().take(1), 0);
    }

    #[test]
    fn shares_divide_what_is_left_but_for_the_reserve() {
        let context = context().with_pairs(100).reserving(10);
        assert_eq!(context.share(4).pairs().left(), 22);
        assert_eq!(context.pairs().left(), 100);
        assert!(context.share(4).pairs().counts_known());
        assert!(!context.pairs().counts_known());
        let share = context.share(4);
        share.pairs().take(5);
        share.pairs().run(3);
        assert_eq!((share.pairs().left(), context.pairs().left()), (17, 97));
        assert_eq!(context.reserving(200).share(4).pairs().left(), 0);
    }

    #[tokio::test]
    async fn a_value_is_computed_once_and_a_failure_again() {
        let memo = Memo::<u32>::default();
        let failed = memo
            .get_or_compute("m", "t", || async { Err(Error::internal("as told")) })
            .await;
        assert!(failed.is_err());
        let (first, second) = tokio::join!(
            memo.get_or_compute("m", "t", || async { Ok(1) }),
            memo.get_or_compute("m", "t", || async { Ok(2) })
        );
        let (first, second) = (first.expect("known"), second.expect("known"));
        assert_eq!(first.0, second.0);
        assert!(first.1 ^ second.1, "computed once");
        let other = memo.get_or_compute("m", "u", || async { Ok(3) }).await;
        assert_eq!(other.expect("known"), (3, true));
    }
}
