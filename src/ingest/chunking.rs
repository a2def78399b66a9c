//! Cuts a text into chunks by tokens of the dense model, with `text-splitter`. Must not know embeddings.

use std::cell::RefCell;
use std::collections::HashMap;

use text_splitter::{ChunkConfig, ChunkSizer, MarkdownSplitter, TextSplitter};

use crate::error::{Error, Result};
use crate::model::Chunking;
use crate::spi::{TextKind, TokenCounter};

/// Part of the pipeline hash: raise it when the same text would be cut otherwise.
pub const CHUNKER_VERSION: &str = "text-splitter-0.33/1";

/// Counts with the real tokenizer, each word of a document once: the splitter asks for the same words again and again, and
/// counting them anew took a sixth of the time that embedding takes.
struct Tokens<'a> {
    counter: &'a dyn TokenCounter,
    words: RefCell<HashMap<String, usize>>,
}

impl ChunkSizer for Tokens<'_> {
    fn size(&self, chunk: &str) -> usize {
        let mut words = self.words.borrow_mut();
        let mut count = |word: &str| match words.get(word) {
            Some(tokens) => *tokens,
            None => {
                let tokens = self.counter.count(word);
                words.insert(word.to_owned(), tokens);
                tokens
            }
        };
        chunk.split_whitespace().map(&mut count).sum()
    }
}

/// Cuts `text` into (start byte, chunk text), in order; blank pieces are left out. `longest` is what fits into the model.
///
/// # Errors
/// `InvalidField` when size and overlap contradict each other.
pub fn cut<'t>(
    text: &'t str,
    kind: TextKind,
    chunking: Chunking,
    longest: u32,
    tokens: &dyn TokenCounter,
) -> Result<Vec<(usize, &'t str)>> {
    let size = chunking.max_tokens.min(longest).max(1);
    let overlap = chunking.overlap_tokens.min(size - 1);
    let config = ChunkConfig::new(size as usize)
        .with_sizer(Tokens {
            counter: tokens,
            words: RefCell::default(),
        })
        .with_overlap(overlap as usize)
        .map_err(|e| {
            Error::invalid_field("chunking", "has an overlap that does not fit").caused_by(e)
        })?;
    let pieces: Vec<(usize, &str)> = match kind {
        TextKind::Plain => TextSplitter::new(config).chunk_indices(text).collect(),
        TextKind::Markdown => MarkdownSplitter::new(config).chunk_indices(text).collect(),
    };
    Ok(pieces
        .into_iter()
        .filter(|(_, piece)| !piece.trim().is_empty())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug)]
    struct Words;

    impl TokenCounter for Words {
        fn count(&self, text: &str) -> usize {
            text.split_whitespace().count()
        }
    }

    fn chunking(max_tokens: u32, overlap_tokens: u32) -> Chunking {
        Chunking {
            max_tokens,
            overlap_tokens,
        }
    }

    #[test]
    fn neighbours_share_the_overlap() {
        let text = "one two three four five six seven eight";
        let pieces = cut(text, TextKind::Plain, chunking(4, 2), 250, &Words).expect("cuts");
        let texts: Vec<&str> = pieces.iter().map(|p| p.1).collect();
        assert_eq!(
            texts,
            [
                "one two three four",
                "three four five six",
                "five six seven eight"
            ]
        );
    }

    #[test]
    fn nothing_comes_from_nothing() {
        assert!(
            cut(" \n ", TextKind::Plain, chunking(4, 2), 250, &Words)
                .expect("cuts")
                .is_empty()
        );
        assert!(
            cut("", TextKind::Markdown, chunking(4, 2), 250, &Words)
                .expect("cuts")
                .is_empty()
        );
    }

    proptest! {
        #[test]
        fn no_unicode_panics_and_every_span_is_the_source(
            text in "\\PC{0,200}( \\PC{0,30}\n){0,10}",
            max in 1u32..30,
            markdown in any::<bool>(),
        ) {
            let kind = if markdown { TextKind::Markdown } else { TextKind::Plain };
            for (start, piece) in cut(&text, kind, chunking(max, max / 5), 250, &Words).expect("cuts") {
                prop_assert_eq!(&text[start..start + piece.len()], piece);
            }
        }

        #[test]
        fn no_word_is_lost(words in prop::collection::vec("[a-z]{1,8}", 0..120), max in 2u32..20) {
            let text = words.join(" ");
            let pieces = cut(&text, TextKind::Plain, chunking(max, 0), 250, &Words).expect("cuts");
            let again: Vec<&str> = pieces.iter().flat_map(|p| p.1.split_whitespace()).collect();
            prop_assert_eq!(again, words);
        }
    }
}
