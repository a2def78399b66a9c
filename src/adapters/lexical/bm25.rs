//! Terms to weights: BM25 without the document frequencies (Robertson and Zaragoza, "The Probabilistic Relevance Framework:
//! BM25 and Beyond", 2009). The store multiplies each term by its own inverse document frequency.

use std::collections::BTreeMap;

use super::stems::Stems;
use super::words::{pairs, phrases, words};
use crate::error::Result;
use crate::model::SparseVector;
use crate::spi::LexicalEncoder;

/// Raised whenever the same text gives other terms or weights.
const VERSION: u32 = 1;
/// How fast repetition saturates.
const K1: f32 = 1.2;
/// How much a long text is discounted.
const B: f32 = 0.75;
/// Words of an average chunk. A constant, so that a document's vector doesn't depend on the others; chunks are cut to a
/// like length anyway.
const AVERAGE_WORDS: f32 = 150.0;

/// The lexical leg's encoder.
pub struct Bm25Encoder {
    id: String,
    stems: Stems,
}

impl std::fmt::Debug for Bm25Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bm25Encoder")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Bm25Encoder {
    /// An encoder that stems by these languages.
    ///
    /// # Errors
    /// `InvalidField` on `retrieval.languages`.
    pub fn new(languages: &[String]) -> Result<Self> {
        let stems = Stems::new(languages)?;
        let names = if languages.is_empty() {
            "none".to_owned()
        } else {
            languages.join("+")
        };
        Ok(Self {
            id: format!("bm25-{VERSION}-{names}"),
            stems,
        })
    }
}

impl LexicalEncoder for Bm25Encoder {
    fn id(&self) -> &str {
        &self.id
    }

    fn encode_document(&self, text: &str) -> SparseVector {
        let words = words(text, &self.stems);
        let length = words.sequence.len() as f32;
        let mut counts: BTreeMap<u32, f32> = BTreeMap::new();
        for term in words.terms {
            *counts.entry(index(&term)).or_default() += 1.0;
        }
        for pair in pairs(&words.sequence) {
            *counts.entry(index(&pair)).or_default() += 1.0;
        }
        let norm = K1 * (1.0 - B + B * length / AVERAGE_WORDS);
        let weight = |count: f32| count * (K1 + 1.0) / (count + norm);
        vector(
            counts
                .into_iter()
                .map(|(index, count)| (index, weight(count))),
        )
    }

    fn encode_query(&self, text: &str) -> SparseVector {
        let mut terms: BTreeMap<u32, f32> = BTreeMap::new();
        for term in words(text, &self.stems).terms {
            terms.insert(index(&term), 1.0);
        }
        for phrase in phrases(text) {
            for pair in pairs(&words(phrase, &self.stems).sequence) {
                terms.insert(index(&pair), 1.0);
            }
        }
        vector(terms.into_iter())
    }
}

fn vector(weights: impl Iterator<Item = (u32, f32)>) -> SparseVector {
    let (indices, values) = weights.unzip();
    SparseVector { indices, values }
}

/// A term's place: FNV-1a, mixed and cut to 32 bits; the same for ever, on every machine. Terms that share a place by chance
/// (one in four billion pairs) count as one.
fn index(term: &str) -> u32 {
    let mut hash = term.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn english() -> Bm25Encoder {
        Bm25Encoder::new(&["english".into()]).unwrap()
    }

    /// What a store without document frequencies would score.
    fn score(query: &str, document: &str) -> f32 {
        let (query, document) = (
            english().encode_query(query),
            english().encode_document(document),
        );
        let weight = |index: &u32| {
            document
                .indices
                .binary_search(index)
                .map_or(0.0, |at| document.values[at])
        };
        query.indices.iter().map(weight).sum()
    }

    #[test]
    fn a_code_is_found_however_it_is_written() {
        let text = "The importer stops with ERR_4711 when lot LOT-2024/117 has no owner.";
        for query in [
            "ERR_4711",
            "err-4711",
            "ERR4711",
            "error ERR 4711?",
            "(err_4711)",
            "lot2024/117",
        ] {
            assert!(score(query, text) > 1.0, "{query}");
        }
        let other = "The importer stops with ERR_4712.";
        assert!(score("ERR_4711", text) > score("ERR_4711", other));
    }

    #[test]
    fn account_numbers_match_in_groups_and_whole() {
        let grouped = "Pay to DE89 3704 0044 0532 0130 00.";
        let whole = "Pay to DE89370400440532013000.";
        let lone = |text: &str| score("DE89370400440532013000", text);
        assert!(lone(grouped) > 0.5 && lone(whole) > 0.5);
        assert!(score("DE89 3704 0044 0532 0130 00", whole) > 0.5);
    }

    #[test]
    fn a_quoted_phrase_prefers_its_own_order() {
        let right = "to be or not to be, that is the question";
        let wrong = "not the question: be that or to is to be";
        assert!(score("\"to be or not to be\"", right) > score("\"to be or not to be\"", wrong));
        assert!(score("\"to be\"", right) > 0.0, "common words count");
    }

    #[test]
    fn repetition_saturates_and_length_is_discounted() {
        let once = score("owl", "owl");
        assert!(
            score("owl", "owl owl") > once && score("owl", &"owl ".repeat(50)) < once * (K1 + 1.0)
        );
        let long = format!("owl {}", "tree ".repeat(300));
        assert!(score("owl", &long) < once);
    }

    #[test]
    fn nothing_searchable_is_an_empty_vector() {
        for text in ["", "  ", "?!…", "\"\""] {
            assert!(english().encode_query(text).is_empty(), "{text:?}");
            assert!(english().encode_document(text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn places_never_change() {
        assert_eq!(index("owl"), 4_016_018_983);
        assert_eq!(english().id(), "bm25-1-english");
    }

    proptest! {
        #[test]
        fn any_text_gives_a_sound_vector_that_finds_itself(text in "(?s).{0,200}") {
            let vector = english().encode_document(&text);
            prop_assert!(vector.indices.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(vector.values.iter().all(|v| v.is_finite() && *v > 0.0));
            let query = english().encode_query(&text);
            prop_assert!(query.indices.iter().all(|i| vector.indices.binary_search(i).is_ok()));
            prop_assert_eq!(query.is_empty(), vector.is_empty());
        }

        #[test]
        fn a_quoted_phrase_finds_itself(words in proptest::collection::vec("[a-zA-Z0-9_ßé東-]{1,8}", 1..6)) {
            let phrase = words.join(" ");
            let document = english().encode_document(&format!("before {phrase} after"));
            let query = english().encode_query(&format!("\"{phrase}\""));
            let found = query.indices.iter().filter(|i| document.indices.binary_search(i).is_ok());
            prop_assert_eq!(found.count(), query.indices.len());
        }
    }
}
