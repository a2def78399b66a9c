//! The async side of the pool: admission, tokenising off the async threads, waiting for replies.
//!
//! Must not know sessions or how a batch is chosen.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, TryAcquireError, oneshot};

use super::call::{Call, Form, LoadedModel};
use super::output::Output;
use super::scheduler::{Job, Scheduler, draining};
use super::tokenize::Tokenized;
use crate::error::{Error, ErrorKind, Result};
use crate::spi::{Encoded, Priority};

/// Texts of a call that are tokenised together; bounds what a cancelled call still costs.
const CHUNK: usize = 16;

/// The way into the pool. Room in a queue is taken before a text is tokenised and given back when it is run.
#[derive(Debug)]
pub(super) struct Intake {
    scheduler: Arc<Scheduler>,
    interactive: Arc<Semaphore>,
    bulk: Arc<Semaphore>,
    bulk_capacity: usize,
    /// How many bulk calls tokenise at once, so that they leave the processors to inference.
    tokenizing: Semaphore,
}

/// A text on its way.
struct Pending {
    tokens: u32,
    truncated: u32,
    unknown: u32,
    reply: oneshot::Receiver<Result<Output>>,
}

/// What became of a text before the scheduler.
type Admitted = Result<Pending>;

impl Intake {
    /// An intake whose queues hold that many texts.
    pub(super) fn new(
        scheduler: Arc<Scheduler>,
        interactive_capacity: usize,
        bulk_capacity: usize,
        threads: usize,
    ) -> Self {
        Self {
            scheduler,
            interactive: Arc::new(Semaphore::new(interactive_capacity)),
            bulk: Arc::new(Semaphore::new(bulk_capacity)),
            bulk_capacity,
            tokenizing: Semaphore::new(threads),
        }
    }

    /// Refuses further calls; those that wait for room fail with `Draining`.
    pub(super) fn close(&self) {
        self.interactive.close();
        self.bulk.close();
        self.tokenizing.close();
    }

    /// Runs texts through a model; one result per text, in order. Dropping the future drops what isn't running yet.
    ///
    /// # Errors
    /// `Overloaded` when an interactive call finds no room, `Draining` when the pool closes.
    pub(super) async fn run(
        &self,
        model: &Arc<LoadedModel>,
        call: Call,
    ) -> Result<Vec<Result<Encoded<Output>>>> {
        let count = call.texts.len();
        let deadline = call.deadline;
        let mut room = self.interactive_room(call.priority, count)?;
        let mut admitted = Vec::with_capacity(count);
        let mut texts = call.texts.into_iter();
        loop {
            let chunk: Vec<String> = texts.by_ref().take(self.chunk(call.priority)).collect();
            if chunk.is_empty() {
                break;
            }
            let chunk = Chunk {
                model: Arc::clone(model),
                texts: chunk,
                form: call.form.clone(),
                deadline,
            };
            let admission = self.admit(chunk, call.priority, &mut room);
            match before(deadline, admission).await {
                Some(chunk) => admitted.extend(chunk?),
                None => break,
            }
        }
        let mut results = Vec::with_capacity(count);
        for pending in admitted {
            results.push(finish(pending, deadline).await);
        }
        results.resize_with(count, || Err(Error::timeout("inference")));
        Ok(results)
    }

    /// Interactive room is taken for the whole call at once, or not at all.
    fn interactive_room(
        &self,
        priority: Priority,
        texts: usize,
    ) -> Result<Option<OwnedSemaphorePermit>> {
        match priority {
            Priority::Bulk if self.bulk.is_closed() => Err(draining()),
            Priority::Bulk => Ok(None),
            Priority::Interactive => {
                let texts = u32::try_from(texts).map_err(|_| overloaded())?;
                match Arc::clone(&self.interactive).try_acquire_many_owned(texts) {
                    Ok(room) => Ok(Some(room)),
                    Err(TryAcquireError::Closed) => Err(draining()),
                    Err(TryAcquireError::NoPermits) => Err(overloaded()),
                }
            }
        }
    }

    fn chunk(&self, priority: Priority) -> usize {
        match priority {
            Priority::Interactive => CHUNK,
            Priority::Bulk => CHUNK.min(self.bulk_capacity),
        }
    }

    /// Takes room, tokenises and queues.
    async fn admit(
        &self,
        chunk: Chunk,
        priority: Priority,
        room: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<Vec<Admitted>> {
        let closed = |_: AcquireError| draining();
        let texts = chunk.texts.len();
        let (room, _turn) = match room {
            Some(room) => (room.split(texts), None),
            None => {
                let texts = u32::try_from(texts).unwrap_or(u32::MAX);
                let room = Arc::clone(&self.bulk).acquire_many_owned(texts);
                let room = room.await.map_err(closed)?;
                (
                    Some(room),
                    Some(self.tokenizing.acquire().await.map_err(closed)?),
                )
            }
        };
        // The room goes along: a cancelled call keeps its place until its tokenising has really ended.
        let tokenized = tokio::task::spawn_blocking(move || chunk.tokenize(room));
        let (jobs, admitted) = tokenized
            .await
            .map_err(|error| Error::internal("tokenising was stopped").caused_by(error))?;
        self.scheduler.push(priority, jobs)?;
        Ok(admitted)
    }
}

/// Some texts of a call.
struct Chunk {
    model: Arc<LoadedModel>,
    texts: Vec<String>,
    form: Form,
    deadline: Option<Instant>,
}

impl Chunk {
    fn tokenize(self, mut room: Option<OwnedSemaphorePermit>) -> (Vec<Job>, Vec<Admitted>) {
        let mut jobs = Vec::with_capacity(self.texts.len());
        let mut admitted = Vec::with_capacity(self.texts.len());
        for text in &self.texts {
            let tokenized = self.tokenize_text(text);
            admitted.push(tokenized.map(|tokenized| {
                let (reply, receiver) = oneshot::channel();
                let pending = Pending {
                    tokens: u32::try_from(tokenized.input.len()).unwrap_or(u32::MAX),
                    truncated: tokenized.truncated,
                    unknown: tokenized.unknown,
                    reply: receiver,
                };
                jobs.push(Job {
                    model: self.model.index,
                    input: tokenized.input,
                    deadline: self.deadline,
                    reply,
                    room: room.as_mut().and_then(|room| room.split(1)),
                });
                pending
            }));
        }
        (jobs, admitted)
    }

    fn tokenize_text(&self, text: &str) -> Result<Tokenized> {
        if self
            .deadline
            .is_some_and(|deadline| deadline <= Instant::now())
        {
            return Err(Error::timeout("inference"));
        }
        self.form.tokenize(&self.model, text)
    }
}

/// Waits for a text's result, no longer than the deadline.
async fn finish(pending: Admitted, deadline: Option<Instant>) -> Result<Encoded<Output>> {
    let pending = pending?;
    let vector = match before(deadline, pending.reply).await {
        Some(Ok(result)) => result?,
        // The scheduler answers every job it drops, so this is a thread that died.
        Some(Err(_)) => return Err(Error::internal("the inference thread is gone")),
        None => return Err(Error::timeout("inference")),
    };
    Ok(Encoded {
        vector,
        tokens: pending.tokens,
        truncated: pending.truncated,
        unknown: pending.unknown,
    })
}

/// The future's output, or `None` when the deadline comes first.
async fn before<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), future).await.ok(),
        None => Some(future.await),
    }
}

fn overloaded() -> Error {
    Error::new(ErrorKind::Overloaded, "the inference queue is full")
}
