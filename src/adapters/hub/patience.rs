//! Work of the hub's client, watched: it has no time limits of its own, and it panics at answers it doesn't expect.
//!
//! Must not know what the work is.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use hf_hub::api::Progress;
use indicatif::ProgressBar;

use crate::error::{Error, ErrorKind, Result};

enum News<T> {
    Alive,
    Done(T),
}

/// Tells that bytes came, and draws them when a person looks.
pub(super) struct Heartbeat<T> {
    news: Sender<News<T>>,
    bar: Option<ProgressBar>,
}

impl<T> Heartbeat<T> {
    /// Draws from now on.
    pub(super) fn drawn(mut self, draws: bool) -> Self {
        self.bar = draws.then(|| ProgressBar::new(0));
        self
    }

    fn beat(&self) {
        // Nobody listens any more once patience ended.
        let _ = self.news.send(News::Alive);
    }
}

impl<T> Progress for Heartbeat<T> {
    fn init(&mut self, size: usize, filename: &str) {
        self.beat();
        if let Some(bar) = &mut self.bar {
            Progress::init(bar, size, filename);
        }
    }

    fn update(&mut self, size: usize) {
        self.beat();
        if let Some(bar) = &mut self.bar {
            Progress::update(bar, size);
        }
    }

    fn finish(&mut self) {
        self.beat();
        if let Some(bar) = &mut self.bar {
            Progress::finish(bar);
        }
    }
}

/// Runs `work` on a thread of its own and waits as long as it shows life within `patience`.
///
/// Work that shows none is left behind: this is for a process that ends soon.
///
/// # Errors
/// `Timeout` when nothing came in time, `DependencyFailed` when the work panicked.
pub(super) fn patiently<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce(Heartbeat<T>) -> T + Send + 'static,
) -> Result<T> {
    let (news, heard) = channel();
    let heartbeat = Heartbeat {
        news: news.clone(),
        bar: None,
    };
    std::thread::Builder::new()
        .name("hub".to_owned())
        .spawn(move || {
            let done = work(heartbeat);
            let _ = news.send(News::Done(done));
        })
        .map_err(|e| Error::internal("no thread for the hub").caused_by(e))?;
    loop {
        match heard.recv_timeout(patience) {
            Ok(News::Alive) => {}
            Ok(News::Done(done)) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => {
                let problem = format!("the hub sent nothing for {patience:?}");
                return Err(Error::new(ErrorKind::Timeout, problem));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let problem = "the hub's answer is none that its client understands";
                return Err(Error::new(ErrorKind::DependencyFailed, problem));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn work_is_waited_for_while_it_lives() {
        let done = patiently(LONG, |mut heartbeat| {
            heartbeat.init(2, "f");
            heartbeat.update(2);
            heartbeat.finish();
            7
        });
        assert_eq!(done.expect("done"), 7);
    }

    #[test]
    fn silence_ends_and_a_panic_is_an_error() {
        let (release, hold) = channel::<()>();
        let error = patiently(SHORT, move |_| hold.recv()).expect_err("silent");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        drop(release);
        let error = patiently::<()>(LONG, |_| panic!("as told")).expect_err("panicked");
        assert_eq!(error.kind(), ErrorKind::DependencyFailed);
    }
}
