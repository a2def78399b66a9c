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

/// A parsed body. Spans of chunks are bytes of `text`.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedDocument {
    /// The text, without control characters.
    pub text: String,
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
