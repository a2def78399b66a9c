//! A cross-encoder that fails, dawdles or never answers on demand.
//!
//! Must not know what it wraps.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::spi::{CrossEncoder, CrossEncoderInfo, PairScore, PairScoring};

/// What a [`FaultyCrossEncoder`] does with one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairFault {
    /// Nothing: the call goes through.
    Pass,
    /// The call fails as a whole, as with `Overloaded` or `Draining`.
    Call(ErrorKind),
    /// Every pair fails; `Internal` is what output that isn't finite looks like.
    All(ErrorKind),
    /// The pairs at these positions fail, the others go through.
    Pairs(Vec<usize>, ErrorKind),
    /// The call waits that long and goes through; at the deadline its pairs are `Timeout`.
    Slow(Duration),
    /// No answer before the deadline, when the pairs are `Timeout`; none at all without one.
    Never,
}

/// Follows a script, one entry a call, then does the same with every further call. Counts calls and pairs.
#[derive(Debug)]
pub struct FaultyCrossEncoder {
    inner: Arc<dyn CrossEncoder>,
    script: Mutex<VecDeque<PairFault>>,
    afterwards: PairFault,
    calls: AtomicUsize,
    pairs: AtomicUsize,
}

impl FaultyCrossEncoder {
    /// Wraps a cross-encoder; what comes after the script goes through.
    pub fn new(inner: Arc<dyn CrossEncoder>, script: impl IntoIterator<Item = PairFault>) -> Self {
        Self {
            inner,
            script: Mutex::new(script.into_iter().collect()),
            afterwards: PairFault::Pass,
            calls: AtomicUsize::new(0),
            pairs: AtomicUsize::new(0),
        }
    }

    /// The same fault with every call.
    pub fn always(inner: Arc<dyn CrossEncoder>, fault: PairFault) -> Self {
        Self {
            afterwards: fault,
            ..Self::new(inner, [])
        }
    }

    /// Calls so far, failed ones too.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Pairs of those calls.
    pub fn pairs(&self) -> usize {
        self.pairs.load(Ordering::SeqCst)
    }

    fn next(&self) -> PairFault {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script
            .pop_front()
            .unwrap_or_else(|| self.afterwards.clone())
    }
}

fn scripted(kind: ErrorKind) -> Error {
    Error::new(kind, "a scripted fault")
}

fn all(pairs: usize, error: impl Fn() -> Error) -> Vec<Result<PairScore>> {
    (0..pairs).map(|_| Err(error())).collect()
}

/// Whether the future came to its end before the deadline.
async fn in_time(deadline: Option<Instant>, future: impl Future<Output = ()>) -> bool {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), future)
            .await
            .is_ok(),
        None => {
            future.await;
            true
        }
    }
}

#[async_trait]
impl CrossEncoder for FaultyCrossEncoder {
    fn info(&self) -> &CrossEncoderInfo {
        self.inner.info()
    }

    async fn score_pairs(&self, request: PairScoring) -> Result<Vec<Result<PairScore>>> {
        let (pairs, deadline) = (request.documents.len(), request.deadline);
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.pairs.fetch_add(pairs, Ordering::SeqCst);
        let answered = match self.next() {
            PairFault::Call(kind) => return Err(scripted(kind)),
            PairFault::All(kind) => return Ok(all(pairs, || scripted(kind))),
            PairFault::Pairs(positions, kind) => {
                let mut results = self.inner.score_pairs(request).await?;
                for position in positions {
                    if let Some(result) = results.get_mut(position) {
                        *result = Err(scripted(kind));
                    }
                }
                return Ok(results);
            }
            PairFault::Pass => true,
            PairFault::Slow(time) => in_time(deadline, tokio::time::sleep(time)).await,
            PairFault::Never => in_time(deadline, pending()).await,
        };
        if answered {
            self.inner.score_pairs(request).await
        } else {
            Ok(all(pairs, || Error::timeout("inference")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spi::Priority;
    use crate::testing::HashCrossEncoder;
    use crate::testing::contract::cross_encoder as contract;

    fn inner() -> Arc<dyn CrossEncoder> {
        Arc::new(HashCrossEncoder::new("fake", 64))
    }

    fn request(time: Option<Duration>) -> PairScoring {
        PairScoring {
            query: "red fox".to_owned(),
            documents: ["red", "fox", "hen"].map(str::to_owned).into(),
            priority: Priority::Interactive,
            deadline: time.map(|time| Instant::now() + time),
        }
    }

    async fn kinds(encoder: &FaultyCrossEncoder, time: Option<Duration>) -> Vec<Option<ErrorKind>> {
        let results = encoder.score_pairs(request(time)).await.unwrap();
        let kind = |result: Result<PairScore>| result.err().map(|error| error.kind());
        results.into_iter().map(kind).collect()
    }

    #[tokio::test]
    async fn without_faults_it_keeps_the_contract() {
        contract::cross_encoder(&FaultyCrossEncoder::new(inner(), [])).await;
    }

    #[tokio::test]
    async fn a_script_is_followed_then_everything_goes_through() {
        let script = [
            PairFault::Call(ErrorKind::Overloaded),
            PairFault::All(ErrorKind::Internal),
            PairFault::Pairs(vec![0, 2], ErrorKind::DependencyFailed),
        ];
        let encoder = FaultyCrossEncoder::new(inner(), script);
        let error = encoder.score_pairs(request(None)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Overloaded);
        assert_eq!(kinds(&encoder, None).await, [Some(ErrorKind::Internal); 3]);
        let failed = Some(ErrorKind::DependencyFailed);
        assert_eq!(kinds(&encoder, None).await, [failed, None, failed]);
        assert_eq!(kinds(&encoder, None).await, [None; 3]);
        assert_eq!((encoder.calls(), encoder.pairs()), (4, 12));
    }

    #[tokio::test]
    async fn slow_and_never_honour_the_deadline() {
        let (moment, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
        let late = [Some(ErrorKind::Timeout); 3];
        let slow = FaultyCrossEncoder::always(inner(), PairFault::Slow(moment));
        assert_eq!(kinds(&slow, None).await, [None; 3]);
        assert_eq!(kinds(&slow, Some(hour)).await, [None; 3]);
        let slower = FaultyCrossEncoder::always(inner(), PairFault::Slow(hour));
        assert_eq!(kinds(&slower, Some(moment)).await, late);
        let never = FaultyCrossEncoder::always(inner(), PairFault::Never);
        assert_eq!(kinds(&never, Some(moment)).await, late);
        let unanswered = tokio::time::timeout(moment, never.score_pairs(request(None)));
        assert!(unanswered.await.is_err());
    }
}
