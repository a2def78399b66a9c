//! Publishes a run's jobs as a real client must: again under the same message id until the server says that it has them.
//!
//! Must not know what jobs do or who is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::script::{AHEAD, Job, TENANTS};
use crate::harness::*;

/// Jobs that are on their way to the stream at once.
const AT_ONCE: usize = 6;
/// The longest a run may stand still: a job that met several outages waits for five minutes.
pub const STILL: Duration = Duration::from_secs(400);

/// What became of a job's publishing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    /// The highest sequence it was stored under.
    pub sequence: u64,
    pub tries: usize,
    /// The server knew it already.
    pub duplicate: bool,
    /// It was stored twice: the server forgot a job that was done when it was killed.
    pub twice: bool,
}

/// How many jobs have a result.
pub type Finished = watch::Receiver<usize>;

/// Callers of all tenants.
pub async fn callers(nats: &Nats) -> Arc<Vec<Caller>> {
    let mut callers = Vec::new();
    for tenant in TENANTS {
        callers.push(Caller::of(nats, tenant).await);
    }
    Arc::new(callers)
}

pub fn caller<'a>(callers: &'a [Caller], tenant: &str) -> &'a Caller {
    let own = callers.iter().find(|caller| caller.tenant == tenant);
    own.expect("a caller of each tenant")
}

/// Waits until so many jobs are finished.
pub async fn reached(finished: &Finished, jobs: usize) {
    let mut finished = finished.clone();
    let mut seen = *finished.borrow();
    while seen < jobs {
        let moved = tokio::time::timeout(STILL, finished.changed()).await;
        assert!(moved.is_ok(), "{seen} jobs finished, then nothing more");
        seen = *finished.borrow_and_update();
    }
}

/// Counts results for as long as somebody wants to know.
pub fn count(callers: Arc<Vec<Caller>>) -> Finished {
    let (tell, finished) = watch::channel(0);
    tokio::spawn(async move {
        while !tell.is_closed() {
            // While the server is away, nobody knows.
            if let Ok(results) = callers[0].jetstream.get_stream("RAG_RESULT").await {
                let results = results.cached_info().state.messages as usize;
                tell.send_if_modified(|known| std::mem::replace(known, results) != results);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    finished
}

/// Publishes all jobs, several at once; what became of each, in the order of the script.
pub async fn publish(
    callers: Arc<Vec<Caller>>,
    script: Arc<Vec<Job>>,
    finished: Finished,
) -> Vec<Sent> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut publishers = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (callers, script) = (Arc::clone(&callers), Arc::clone(&script));
        let (next, finished) = (Arc::clone(&next), finished.clone());
        publishers.spawn(async move {
            let mut sent = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = script.get(number) else {
                    return sent;
                };
                reached(&finished, number.saturating_sub(AHEAD)).await;
                let caller = caller(&callers, job.place.0);
                let mut outcome = Sent::default();
                until_stored(caller, job, &mut outcome).await;
                if let Some(before) = job.unheard {
                    reached(&finished, number.saturating_sub(before)).await;
                    until_stored(caller, job, &mut outcome).await;
                }
                sent.push((number, outcome));
            }
        });
    }
    let mut sent: Vec<_> = publishers.join_all().await.into_iter().flatten().collect();
    sent.sort_by_key(|(number, _)| *number);
    sent.into_iter().map(|(_, sent)| sent).collect()
}

async fn until_stored(caller: &Caller, job: &Job, sent: &mut Sent) {
    let tries = AtomicUsize::new(sent.tries);
    let ack = eventually("a job is stored", STILL, || async {
        tries.fetch_add(1, Ordering::Relaxed);
        let headers = headers(&[
            JSON,
            ("Rag-Request-Id", &job.id),
            ("Nats-Msg-Id", &job.message),
        ]);
        // Whatever the failure: it may be stored, or not.
        let ack = caller.publish_raw(headers, job.json().to_string()).await;
        ack.ok()
    })
    .await;
    *sent = Sent {
        sequence: ack.sequence.max(sent.sequence),
        tries: tries.into_inner(),
        duplicate: ack.duplicate,
        twice: sent.sequence != 0 && ack.sequence != sent.sequence,
    };
}
