//! Text to token ids: our own framing and truncation over a `tokenizer.json`.
//!
//! Synchronous and CPU-bound: run it off the async threads. Must not know queues or sessions.

use std::ops::Range;

use tokenizers::Tokenizer;

use super::manifest::ModelFolder;
use crate::error::{Error, Result};

/// Texts are tokenised in pieces of about this many bytes: the library needs some hundred bytes of memory for each
/// byte of text, which would be hundreds of megabytes for one large text.
const PIECE_BYTES: usize = 16 * 1024;

/// How the common vocabularies spell the unknown token.
const UNKNOWN_TOKENS: [&str; 2] = ["[UNK]", "<unk>"];

/// A text ready for the graph, special tokens included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TokenIds {
    /// Vocabulary ids.
    pub(super) ids: Vec<u32>,
    /// Where the second segment (token type 1) begins; the length for a single text.
    pub(super) second: usize,
}

impl TokenIds {
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

/// A tokenised text and what it lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tokenized {
    pub(super) input: TokenIds,
    /// Tokens cut off.
    pub(super) truncated: u32,
    /// Unknown tokens among those kept.
    pub(super) unknown: u32,
}

/// A model's tokenizer, without padding and truncation of its own.
pub(super) struct TextTokenizer {
    tokenizer: Tokenizer,
    /// Special tokens before the text.
    before: Vec<u32>,
    /// Special tokens after the text.
    after: Vec<u32>,
    unknown: Option<u32>,
    padding: u32,
    /// Longest input, special tokens included.
    max_tokens: usize,
}

impl TextTokenizer {
    /// Loads the folder's tokenizer.
    ///
    /// # Errors
    /// `InvalidField` on `models.dir` when it can't be read or leaves no room for text.
    pub(super) fn load(folder: &ModelFolder) -> Result<Self> {
        let wrong = |problem: String| folder.fault(format!("tokenizer.json {problem}"));
        let mut tokenizer = Tokenizer::from_file(folder.tokenizer())
            .map_err(|error| wrong(format!("can't be loaded: {error}")))?;
        // A fixed padding of 128 (MiniLM's file has it) makes every short text cost 128 tokens.
        let padding = tokenizer.get_padding().map_or(0, |padding| padding.pad_id);
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(None)
            .map_err(|error| wrong(format!("keeps its truncation: {error}")))?;
        let (before, after) = framing(&tokenizer)
            .ok_or_else(|| wrong("frames a text in a way this program doesn't know".into()))?;
        let max_tokens = folder.max_tokens() as usize;
        if before.len() + after.len() >= max_tokens {
            return Err(wrong(
                "adds more special tokens than max_tokens allows".into(),
            ));
        }
        let unknown = UNKNOWN_TOKENS
            .iter()
            .find_map(|token| tokenizer.token_to_id(token));
        Ok(Self {
            tokenizer,
            before,
            after,
            unknown,
            padding,
            max_tokens,
        })
    }

    /// The id that fills a batch's shorter rows.
    pub(super) fn padding(&self) -> u32 {
        self.padding
    }

    /// Special tokens added to one text.
    pub(super) fn special_tokens(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Keeps the first tokens that fit and counts the rest.
    ///
    /// # Errors
    /// `Internal` when the tokenizer refuses the text.
    pub(super) fn tokenize(&self, prefix: &str, text: &str) -> Result<Tokenized> {
        let room = self.max_tokens - self.special_tokens();
        let mut ids = Vec::with_capacity(self.max_tokens.min(self.special_tokens() + text.len()));
        ids.extend_from_slice(&self.before);
        let mut total = 0;
        self.for_each_piece(prefix, text, |piece| {
            total += piece.len();
            let kept = ids.len() - self.before.len();
            ids.extend(piece.iter().take(room - kept));
        })?;
        let unknown = ids.iter().filter(|&&id| Some(id) == self.unknown).count();
        let kept = ids.len() - self.before.len();
        ids.extend_from_slice(&self.after);
        Ok(Tokenized {
            truncated: count_u32(total - kept),
            unknown: count_u32(unknown),
            input: TokenIds {
                second: ids.len(),
                ids,
            },
        })
    }

    /// Counts the text's tokens, special tokens excluded.
    ///
    /// # Errors
    /// As [`Self::tokenize`].
    pub(super) fn count(&self, text: &str) -> Result<usize> {
        let mut total = 0;
        self.for_each_piece("", text, |piece| total += piece.len())?;
        Ok(total)
    }

    fn for_each_piece(
        &self,
        prefix: &str,
        text: &str,
        mut visit: impl FnMut(&[u32]),
    ) -> Result<()> {
        for range in pieces(text) {
            let is_first = range.start == 0;
            let piece = &text[range];
            let encoding = if is_first && !prefix.is_empty() {
                self.tokenizer
                    .encode_fast(format!("{prefix}{piece}"), false)
            } else {
                self.tokenizer.encode_fast(piece, false)
            };
            // The library's message may quote the text.
            let encoding = encoding.map_err(|_| Error::internal("a text can't be tokenised"))?;
            visit(encoding.get_ids());
        }
        Ok(())
    }
}

impl std::fmt::Debug for TextTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextTokenizer")
            .field("max_tokens", &self.max_tokens)
            .finish_non_exhaustive()
    }
}

/// The special tokens around a single text, learned from a probe so that any post-processor will do.
fn framing(tokenizer: &Tokenizer) -> Option<(Vec<u32>, Vec<u32>)> {
    let bare = tokenizer.encode_fast("a", false).ok()?;
    let framed = tokenizer.encode_fast("a", true).ok()?;
    let (bare, framed) = (bare.get_ids(), framed.get_ids());
    if bare.is_empty() {
        return None;
    }
    let start = framed.windows(bare.len()).position(|ids| ids == bare)?;
    let end = start + bare.len();
    Some((framed[..start].to_vec(), framed[end..].to_vec()))
}

/// Cuts before white space only: no vocabulary of words or word pieces has tokens across it, so the pieces' tokens
/// are the text's. Text without white space stays whole. At least one piece, so that a prefix is always seen.
fn pieces(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let start = next?;
        let end = piece_end(text, start);
        next = (end < text.len()).then_some(end);
        Some(start..end)
    })
}

fn piece_end(text: &str, start: usize) -> usize {
    let target = start.saturating_add(PIECE_BYTES);
    if target >= text.len() {
        return text.len();
    }
    let target = text.floor_char_boundary(target);
    text[target..]
        .find(char::is_whitespace)
        .map_or(text.len(), |offset| target + offset)
}

fn count_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_text_and_begin_at_white_space() {
        let word = "ab€ ";
        for text in [
            String::new(),
            word.into(),
            word.repeat(30_000),
            "é".repeat(100_000),
        ] {
            let mut end = 0;
            for (index, piece) in pieces(&text).enumerate() {
                assert_eq!(piece.start, end);
                assert!(index == 0 || text[piece.start..].starts_with(' '));
                end = piece.end;
            }
            assert_eq!(end, text.len());
        }
        assert!(pieces(&word.repeat(30_000)).count() > 5);
        assert_eq!(pieces(&"é".repeat(100_000)).count(), 1);
        assert_eq!(pieces("").count(), 1);
    }
}
