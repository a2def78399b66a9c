//! Bodies to text.

use std::fmt;

use crate::error::Result;

/// How a text is structured; decides where it may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// Plain text.
    Plain,
    /// Markdown (CommonMark).
    Markdown,
}

/// From bytes of a cleaned text back to bytes of its source, where the two differ because something was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OffsetMap {
    /// Ascending by clean byte.
    runs: Vec<Run>,
}

/// From this clean byte on, source bytes run beside it, or one replaced character stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    clean: usize,
    source: usize,
    /// A replaced character: its end in the source is where the next run starts.
    replaced: bool,
}

impl OffsetMap {
    /// Notes that the next bytes of the clean text, from `clean` on, stand at `source`.
    pub fn push(&mut self, clean: usize, source: usize) {
        self.add(Run {
            clean,
            source,
            replaced: false,
        });
    }

    /// Notes that the next character of the clean text stands for something else at `source`; a [`OffsetMap::push`]
    /// behind it must follow.
    pub fn push_replaced(&mut self, clean: usize, source: usize) {
        self.add(Run {
            clean,
            source,
            replaced: true,
        });
    }

    fn add(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last) if last.clean == run.clean => *last = run,
            Some(_) | None => self.runs.push(run),
        }
    }

    /// Where a clean span stands in the source. What was dropped right behind the span is not part of it.
    pub fn span(&self, start: usize, end: usize) -> (usize, usize) {
        (self.start(start), self.end(end).max(self.start(start)))
    }

    fn start(&self, clean: usize) -> usize {
        let behind = self.runs.partition_point(|run| run.clean <= clean);
        match behind.checked_sub(1).map(|i| self.runs[i]) {
            Some(run) => run.source + (clean - run.clean),
            None => clean,
        }
    }

    fn end(&self, clean: usize) -> usize {
        let behind = self.runs.partition_point(|run| run.clean < clean);
        match behind.checked_sub(1).map(|i| self.runs[i]) {
            Some(run) if run.replaced => {
                self.runs.get(behind).map_or(run.source, |next| next.source)
            }
            Some(run) => run.source + (clean - run.clean),
            None => clean,
        }
    }
}

/// A parsed body.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedDocument {
    /// The text, without control characters.
    pub text: String,
    /// From `text` back to the body.
    pub offsets: OffsetMap,
    /// Its structure.
    pub kind: TextKind,
    /// What was dropped or guessed.
    pub warnings: Vec<String>,
}

/// Parses a body by its media type. Synchronous: call it off the async threads.
pub trait DocumentParser: Send + Sync + fmt::Debug {
    /// Parses `body`. An empty `media_type` means: by the ending of `file_name`, else plain text.
    ///
    /// # Errors
    /// `InvalidField` on `mediaType` when it isn't supported, on `data` when the bytes are no such document.
    fn parse(&self, body: &[u8], media_type: &str, file_name: &str) -> Result<ParsedDocument>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_skip_what_was_dropped() {
        // source "ab\0cd\0": clean "abcd".
        let mut map = OffsetMap::default();
        map.push(2, 3);
        assert_eq!(map.span(0, 2), (0, 2));
        assert_eq!(map.span(1, 3), (1, 4));
        assert_eq!(map.span(2, 4), (3, 5));
        assert_eq!(OffsetMap::default().span(3, 9), (3, 9));
    }
}
