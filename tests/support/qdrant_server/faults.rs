//! Which call meets which fault. Must not know what a call does.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;
use tonic::{Code, Status};

/// What becomes of a call.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// It fails with this status and has no effect.
    Fails(Code),
    /// Too much work, with seconds to wait; without: a quota is used up.
    Exhausted(Option<u64>),
    /// It waits until the server is told to let it go on.
    Held,
    /// A write is logged but not applied before the next write; the answer is OK and says so.
    WaitTimeout,
    /// Half of a write's points are applied, then the connection breaks.
    HalfApplied,
    /// It is applied, but the answer is lost.
    Unanswered,
}

/// How much of a write is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Whole,
    Half,
    Unanswered,
    Later,
}

/// The script.
pub struct Faults {
    next: Mutex<HashMap<&'static str, VecDeque<Fault>>>,
    calls: Mutex<HashMap<&'static str, usize>>,
    down: AtomicBool,
    released: watch::Sender<bool>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            next: Mutex::default(),
            calls: Mutex::default(),
            down: AtomicBool::new(false),
            released: watch::Sender::new(false),
        }
    }
}

impl Faults {
    pub fn push(&self, method: &'static str, fault: Fault) {
        let mut next = self.next.lock().expect("whole");
        next.entry(method).or_default().push_back(fault);
    }

    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Release);
    }

    pub fn release(&self) {
        self.released.send_replace(true);
    }

    pub fn calls(&self, method: &'static str) -> usize {
        let calls = self.calls.lock().expect("whole");
        calls.get(method).copied().unwrap_or(0)
    }

    /// Counts a call and does what the script says.
    pub async fn meet(&self, method: &'static str) -> Result<Effect, Status> {
        if self.down.load(Ordering::Acquire) {
            return Err(Status::unavailable("tcp connect error"));
        }
        let fault = {
            let mut next = self.next.lock().expect("whole");
            next.get_mut(method).and_then(VecDeque::pop_front)
        };
        *self.calls.lock().expect("whole").entry(method).or_default() += 1;
        match fault {
            None => Ok(Effect::Whole),
            Some(Fault::Fails(code)) => Err(Status::new(code, "quotes \"private words\" of yours")),
            Some(Fault::Exhausted(wait)) => Err(exhausted(wait)),
            Some(Fault::Held) => {
                let mut released = self.released.subscribe();
                let waited = released.wait_for(|released| *released).await;
                waited
                    .map(|_| Effect::Whole)
                    .map_err(|_| Status::cancelled("the test is over"))
            }
            Some(Fault::WaitTimeout) => Ok(Effect::Later),
            Some(Fault::HalfApplied) => Ok(Effect::Half),
            Some(Fault::Unanswered) => Ok(Effect::Unanswered),
        }
    }
}

fn exhausted(wait: Option<u64>) -> Status {
    let mut status = Status::resource_exhausted("Rate limit exceeded");
    if let Some(wait) = wait {
        status.metadata_mut().insert("retry-after", wait.into());
    }
    status
}
