//! Text to token ids: our own framing and truncation over a `tokenizer.json`.
//!
//! Synchronous and CPU-bound: run it off the async threads. Must not know queues or sessions.

use std::ops::Range;

use tokenizers::Tokenizer;

use super::framing::{Framing, PairFraming};
use super::manifest::{ModelFolder, Task};
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
    framing: Framing,
    /// Only for models that take pairs.
    pair: Option<PairFraming>,
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
        // "[SEP]" in a text is what somebody wrote, not the end of a segment: it gets the tokens of its characters.
        // Frames are ours, so no special token has to be found in a text.
        tokenizer.set_encode_special_tokens(true);
        let strange = || wrong("frames texts in a way this program doesn't know".into());
        let framing = Framing::probe(&tokenizer).ok_or_else(strange)?;
        let pair = match folder.task() {
            Task::CrossEncoder { .. } => Some(PairFraming::probe(&tokenizer).ok_or_else(strange)?),
            Task::Dense { .. } | Task::Sparse { .. } => None,
        };
        let max_tokens = folder.max_tokens() as usize;
        // Room for a token of each text.
        let least = pair.as_ref().map_or(1, |pair| pair.len() + 2);
        if least.max(framing.len() + 1) > max_tokens {
            return Err(wrong(
                "adds more special tokens than max_tokens allows".into(),
            ));
        }
        let unknown = UNKNOWN_TOKENS
            .iter()
            .find_map(|token| tokenizer.token_to_id(token));
        Ok(Self {
            tokenizer,
            framing,
            pair,
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
        self.framing.len()
    }

    /// Keeps the first tokens that fit and counts the rest.
    ///
    /// # Errors
    /// `Internal` when the tokenizer refuses the text.
    pub(super) fn tokenize(&self, prefix: &str, text: &str) -> Result<Tokenized> {
        let mut ids = self.framing.before.clone();
        let room = self.max_tokens - self.special_tokens();
        let truncated = self.append(&mut ids, prefix, text, room, |_| true)?;
        ids.extend_from_slice(&self.framing.after);
        let second = ids.len();
        Ok(self.tokenized(ids, second, truncated))
    }

    /// The query's tokens for [`Self::tokenize_pair`], cut where no document would fit any more.
    ///
    /// # Errors
    /// `Internal` when the tokenizer refuses the text or the model takes no pairs.
    pub(super) fn tokenize_query(&self, prefix: &str, query: &str) -> Result<Vec<u32>> {
        let pair = self.pair()?;
        let mut ids = Vec::new();
        let room = self.max_tokens - pair.len();
        self.append(&mut ids, prefix, query, room, |id| !pair.is_boundary(id))?;
        Ok(ids)
    }

    /// Frames a query and a document, of which it keeps the first tokens that fit and counts the rest.
    ///
    /// # Errors
    /// `InvalidField` on `query` when it leaves no room for a token of a document; `Internal` as above.
    pub(super) fn tokenize_pair(
        &self,
        query: &[u32],
        prefix: &str,
        document: &str,
    ) -> Result<Tokenized> {
        let pair = self.pair()?;
        let room = self.max_tokens.saturating_sub(pair.len() + query.len());
        if room == 0 {
            return Err(Error::invalid_field(
                "query",
                format!(
                    "is too long for the cross-encoder, which takes {} tokens with the document",
                    self.max_tokens
                ),
            ));
        }
        let mut ids = [&pair.before, query, &pair.between].concat();
        let between = ids.len() - pair.between.len();
        // Some vocabularies (Unigram) hold special tokens as words, so that a text can still spell one, and in a pair
        // it would look like a boundary. It is left out.
        let truncated =
            self.append(&mut ids, prefix, document, room, |id| !pair.is_boundary(id))?;
        ids.extend_from_slice(&pair.after);
        let second = pair
            .first_type
            .map_or(ids.len(), |of_between| between + of_between);
        Ok(self.tokenized(ids, second, truncated))
    }

    fn pair(&self) -> Result<&PairFraming> {
        let pair = self.pair.as_ref();
        pair.ok_or_else(|| Error::internal("the model takes no pairs"))
    }

    /// Appends the first `room` tokens of those to keep; how many there were beyond.
    fn append(
        &self,
        ids: &mut Vec<u32>,
        prefix: &str,
        text: &str,
        room: usize,
        keep: impl Fn(u32) -> bool,
    ) -> Result<usize> {
        let end = ids.len() + room;
        let mut beyond = 0;
        self.for_each_piece(prefix, text, |piece| {
            for &id in piece.iter().filter(|&&id| keep(id)) {
                if ids.len() < end {
                    ids.push(id);
                } else {
                    beyond += 1;
                }
            }
        })?;
        Ok(beyond)
    }

    fn tokenized(&self, ids: Vec<u32>, second: usize, truncated: usize) -> Tokenized {
        let unknown = ids.iter().filter(|&&id| Some(id) == self.unknown).count();
        Tokenized {
            truncated: count_u32(truncated),
            unknown: count_u32(unknown),
            input: TokenIds { ids, second },
        }
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

    /// A tokenizer file as a model's folder holds it.
    fn load(tokenizer: &str, keys: &str) -> Result<TextTokenizer> {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("m");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("model.onnx"), "").unwrap();
        std::fs::write(folder.join("tokenizer.json"), tokenizer).unwrap();
        let manifest = format!(
            "id = \"m\"\ndimension = 1\noutput = \"o\"\nlicence = \"\"\nsource = \"\"\nbatch_invariant = true\n{keys}"
        );
        std::fs::write(folder.join("model.toml"), manifest).unwrap();
        TextTokenizer::load(&ModelFolder::open(dir.path(), "m").unwrap())
    }

    fn pair_keys(max_tokens: usize) -> String {
        format!(
            "task = \"cross-encoder\"\nmax_tokens = {max_tokens}\n[cross_encoder]\nactivation = \"sigmoid\""
        )
    }

    fn bert(max_tokens: usize) -> TextTokenizer {
        load(BERT, &pair_keys(max_tokens)).unwrap()
    }

    const BERT: &str = include_str!("../../../tests/fixtures/tiny-cross-encoder/tokenizer.json");
    const EXPECTED: &str = include_str!("../../../tests/fixtures/tiny-cross-encoder/expected.json");

    /// RoBERTa's frame over a vocabulary that can spell its special tokens.
    const ROBERTA: &str = r#"{
        "version": "1.0", "normalizer": null, "decoder": null, "truncation": null, "padding": null,
        "added_tokens": [
            {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
            {"id": 2, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
        ],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": true, "add_prefix_space": false},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["▁", -2.0], ["a", -3.0], ["b", -3.0]]}
    }"#;

    #[test]
    fn pairs_have_the_references_ids_types_and_losses() {
        let tokenizer = bert(128);
        let expected: serde_json::Value = serde_json::from_str(EXPECTED).unwrap();
        for case in expected["cases"].as_array().unwrap() {
            let query = tokenizer.tokenize_query("", case["query"].as_str().unwrap());
            let document = case["document"].as_str().unwrap();
            let pair = tokenizer
                .tokenize_pair(&query.unwrap(), "", document)
                .unwrap();
            let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
            assert_eq!(pair.input.ids, ids, "{}", case["name"]);
            assert_eq!(pair.input.second as u64, case["second"], "{}", case["name"]);
            assert_eq!(pair.truncated, case["truncated_tokens"], "{}", case["name"]);
        }
    }

    #[test]
    fn prefixes_belong_to_their_side() {
        let tokenizer = bert(64);
        let query = tokenizer.tokenize_query("query ", "lift").unwrap();
        let with = tokenizer.tokenize_pair(&query, "text ", "wing").unwrap();
        let query = tokenizer.tokenize_query("", "query lift").unwrap();
        let without = tokenizer.tokenize_pair(&query, "", "text wing").unwrap();
        assert_eq!(with, without);
        assert_eq!((with.input.len(), with.input.second), (7, 4));
    }

    #[test]
    fn a_query_needs_room_for_a_token_of_the_document() {
        let tokenizer = bert(8);
        let fits = tokenizer.tokenize_query("", "a a a a").unwrap();
        let pair = tokenizer.tokenize_pair(&fits, "", "wing wing").unwrap();
        assert_eq!((pair.input.len(), pair.truncated), (8, 1));
        for query in ["a a a a a", &"a ".repeat(9_000)] {
            let query = tokenizer.tokenize_query("", query).unwrap();
            assert_eq!(query.len(), 5, "what can't be used is not kept");
            for document in ["wing", ""] {
                let error = tokenizer.tokenize_pair(&query, "", document).unwrap_err();
                assert_eq!(error.field(), Some("query"));
            }
        }
        assert!(load(BERT, &pair_keys(4)).is_err(), "no room for two texts");
    }

    #[test]
    fn a_frame_without_token_types_is_learned_too() {
        let tokenizer = load(ROBERTA, &pair_keys(16)).unwrap();
        let query = tokenizer.tokenize_query("", "a").unwrap();
        let pair = tokenizer.tokenize_pair(&query, "", "b").unwrap();
        assert_eq!(pair.input.ids, [0, 4, 5, 2, 2, 4, 6, 2]);
        assert_eq!(pair.input.second, 8);
    }

    #[test]
    fn spelled_special_tokens_are_text_and_no_boundary() {
        let tokenizer = bert(64);
        let single = tokenizer.tokenize("", "lift [SEP] wing [CLS]").unwrap();
        let count = |ids: &[u32], id| ids.iter().filter(|&&other| other == id).count();
        let [cls, sep] = ["[CLS]", "[SEP]"].map(|t| tokenizer.tokenizer.token_to_id(t).unwrap());
        assert_eq!(
            (count(&single.input.ids, cls), count(&single.input.ids, sep)),
            (1, 1)
        );
        let query = tokenizer.tokenize_query("", "lift [SEP]").unwrap();
        let pair = tokenizer
            .tokenize_pair(&query, "", "[SEP] wing [CLS][SEP]")
            .unwrap();
        assert_eq!(
            (count(&pair.input.ids, cls), count(&pair.input.ids, sep)),
            (1, 2)
        );

        let tokenizer = load(ROBERTA, &pair_keys(32)).unwrap();
        let spelled = tokenizer.tokenizer.encode_fast("a</s>", false).unwrap();
        assert!(
            spelled.get_ids().contains(&2),
            "this vocabulary needs the filter"
        );
        let query = tokenizer.tokenize_query("", "a</s>").unwrap();
        let pair = tokenizer
            .tokenize_pair(&query, "", "</s>b<s> </s>")
            .unwrap();
        assert_eq!(
            (count(&pair.input.ids, 0), count(&pair.input.ids, 2)),
            (1, 3)
        );
    }
}
