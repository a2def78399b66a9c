//! Which special tokens a tokenizer puts around one text or two, learned from probes so that any post-processor will do.
//!
//! Must not know truncation or where a tokenizer came from.

use tokenizers::{Encoding, Tokenizer};

/// The special tokens around a single text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Framing {
    pub(super) before: Vec<u32>,
    pub(super) after: Vec<u32>,
}

impl Framing {
    /// `None` when the text's own tokens can't be found in what the tokenizer makes of it.
    pub(super) fn probe(tokenizer: &Tokenizer) -> Option<Self> {
        let bare = bare(tokenizer, "a")?;
        let framed = tokenizer.encode_fast("a", true).ok()?;
        let framed = framed.get_ids();
        let start = find(framed, &bare, 0)?;
        Some(Self {
            before: framed[..start].to_vec(),
            after: framed[start + bare.len()..].to_vec(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }
}

/// The special tokens around a pair: `[CLS] query [SEP] document [SEP]`, or `<s> query </s></s> document </s>`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PairFraming {
    pub(super) before: Vec<u32>,
    pub(super) between: Vec<u32>,
    pub(super) after: Vec<u32>,
    /// How many of `between` still have token type 0; `None` when there is no type 1 at all.
    pub(super) first_type: Option<usize>,
    /// The frame's special tokens, without words that a template may put between the texts.
    boundaries: Vec<u32>,
}

impl PairFraming {
    /// `None` when the texts' own tokens can't be found, or token types aren't zeros and then ones that begin between
    /// the texts.
    pub(super) fn probe(tokenizer: &Tokenizer) -> Option<Self> {
        let (query, document) = (bare(tokenizer, "a")?, bare(tokenizer, "b")?);
        let framed = tokenizer.encode(("a", "b"), true).ok()?;
        let ids = framed.get_ids();
        let start = find(ids, &query, 0)?;
        let query_end = start + query.len();
        let document_start = find(ids, &document, query_end)?;
        let (before, between) = (&ids[..start], &ids[query_end..document_start]);
        let after = &ids[document_start + document.len()..];
        let specials = tokenizer.get_added_vocabulary();
        let is_special = |id: &u32| {
            let token = tokenizer.id_to_token(*id);
            token.is_some_and(|token| specials.is_special_token(&token))
        };
        Some(Self {
            boundaries: [before, between, after]
                .concat()
                .into_iter()
                .filter(is_special)
                .collect(),
            before: before.to_vec(),
            between: between.to_vec(),
            after: after.to_vec(),
            first_type: match first_of_type_one(&framed)? {
                second if second == ids.len() => None,
                second if second > document_start => return None,
                second => Some(second.checked_sub(query_end)?),
            },
        })
    }

    pub(super) fn len(&self) -> usize {
        self.before.len() + self.between.len() + self.after.len()
    }

    /// Whether the id would look like a boundary of the pair.
    pub(super) fn is_boundary(&self, id: u32) -> bool {
        self.boundaries.contains(&id)
    }
}

fn bare(tokenizer: &Tokenizer, text: &str) -> Option<Vec<u32>> {
    let encoding = tokenizer.encode_fast(text, false).ok()?;
    Some(encoding.get_ids().to_vec()).filter(|ids| !ids.is_empty())
}

fn find(ids: &[u32], part: &[u32], from: usize) -> Option<usize> {
    let position = ids[from..]
        .windows(part.len())
        .position(|window| window == part)?;
    Some(from + position)
}

/// Where type 1 begins, the length when it doesn't; `None` for types that aren't zeros and then ones.
fn first_of_type_one(encoding: &Encoding) -> Option<usize> {
    let types = encoding.get_type_ids();
    let second = types
        .iter()
        .position(|&kind| kind != 0)
        .unwrap_or(types.len());
    types[second..]
        .iter()
        .all(|&kind| kind == 1)
        .then_some(second)
}
