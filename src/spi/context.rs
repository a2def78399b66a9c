//! What all stages of one request share: its time budget, its pair budget and what was computed already.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OnceCell, watch};

use super::{Encoded, Trail};
use crate::error::{Error, Result};
use crate::model::{ChunkId, ModelPair, SparseVector};

/// The budgets and the memory of one request. Clones share them.
#[derive(Debug, Clone)]
pub struct RequestContext {
    deadline: Instant,
    pairs: Arc<PairBudget>,
    memo: Arc<RequestMemo>,
    models: Arc<OnceLock<ModelPair>>,
    turn: Option<Turn>,
    pub(super) trail: Option<Arc<Trail>>,
}

impl RequestContext {
    /// A time budget that ends at `deadline`; pairs are unlimited.
    pub fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            pairs: Arc::new(PairBudget::new(u32::MAX)),
            memo: Arc::default(),
            models: Arc::default(),
            turn: None,
            trail: None,
        }
    }

    /// The same with at most `pairs` (query, chunk) pairs.
    #[must_use]
    pub fn with_pairs(mut self, pairs: u32) -> Self {
        self.pairs = Arc::new(PairBudget::new(pairs));
        self
    }

    /// The contexts of sub-queries that run beside each other and score one after the other: what is left of the pair budget
    /// for one never depends on how fast another was. Each keeps its turn until it is dropped.
    pub fn in_turns(&self, count: usize) -> Vec<Self> {
        let ended = watch::Sender::new(vec![false; count]);
        let ended = Arc::new(ended);
        let turn = |number| Self {
            turn: Some(Turn(Arc::new(TurnInner {
                number,
                ended: Arc::clone(&ended),
            }))),
            ..self.clone()
        };
        (0..count).map(turn).collect()
    }

    /// Waits until every earlier sub-query has ended.
    pub async fn my_turn(&self) {
        let Some(Turn(turn)) = &self.turn else {
            return;
        };
        let mut ended = turn.ended.subscribe();
        // The sender lives as long as this turn.
        let _ = ended
            .wait_for(|ended| ended[..turn.number].iter().all(|ended| *ended))
            .await;
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

    /// Notes the models that answer this request.
    pub fn note_models(&self, models: ModelPair) {
        // A rebuild may switch between two sub-queries: the original's, which is asked first, are told.
        let _ = self.models.set(models);
    }

    /// The models that answered; `None` before anything was asked.
    pub fn models(&self) -> Option<&ModelPair> {
        self.models.get()
    }

    /// What was computed already.
    pub fn memo(&self) -> &RequestMemo {
        &self.memo
    }
}

/// A place in a row of sub-queries.
#[derive(Debug, Clone)]
struct Turn(Arc<TurnInner>);

#[derive(Debug)]
struct TurnInner {
    number: usize,
    ended: Arc<watch::Sender<Vec<bool>>>,
}

impl Drop for TurnInner {
    fn drop(&mut self) {
        self.ended.send_modify(|ended| ended[self.number] = true);
    }
}

/// How many (query, chunk) pairs may still be scored.
#[derive(Debug)]
pub struct PairBudget {
    left: AtomicU32,
}

impl PairBudget {
    fn new(pairs: u32) -> Self {
        Self {
            left: AtomicU32::new(pairs),
        }
    }

    /// What is left.
    pub fn left(&self) -> u32 {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes up to `wanted`; returns how many it got.
    pub fn take(&self, wanted: u32) -> u32 {
        let took = |left: u32| Some(left - left.min(wanted));
        let before = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, took);
        before.unwrap_or_else(|left| left).min(wanted)
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

    #[tokio::test]
    async fn turns_come_in_order_whoever_ends_first() {
        let turns = context().in_turns(3);
        let mut turns = turns.into_iter();
        let (first, second, third) = (turns.next(), turns.next(), turns.next());
        let (first, third) = (first.expect("three"), third.expect("three"));
        first.my_turn().await;
        drop(second);
        let waiting = tokio::spawn(async move { third.my_turn().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "the first has not ended");
        // Clones are the same turn.
        let again = first.clone();
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(again);
        waiting.await.expect("its turn");
        context().my_turn().await;
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
