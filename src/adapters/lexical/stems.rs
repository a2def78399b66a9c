//! Words to their stems, by Snowball's algorithms (Porter, 2001), without accents. Pure once made.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::error::{Error, Result};

const LANGUAGES: [(&str, Algorithm); 18] = [
    ("arabic", Algorithm::Arabic),
    ("danish", Algorithm::Danish),
    ("dutch", Algorithm::Dutch),
    ("english", Algorithm::English),
    ("finnish", Algorithm::Finnish),
    ("french", Algorithm::French),
    ("german", Algorithm::German),
    ("greek", Algorithm::Greek),
    ("hungarian", Algorithm::Hungarian),
    ("italian", Algorithm::Italian),
    ("norwegian", Algorithm::Norwegian),
    ("portuguese", Algorithm::Portuguese),
    ("romanian", Algorithm::Romanian),
    ("russian", Algorithm::Russian),
    ("spanish", Algorithm::Spanish),
    ("swedish", Algorithm::Swedish),
    ("tamil", Algorithm::Tamil),
    ("turkish", Algorithm::Turkish),
];

/// The stemmers of some languages.
pub(super) struct Stems {
    stemmers: Vec<Stemmer>,
}

impl Stems {
    /// Stemmers of these languages; none = words as they are.
    ///
    /// # Errors
    /// `InvalidField` on `retrieval.languages` for a language without one.
    pub(super) fn new(languages: &[String]) -> Result<Self> {
        let stemmer = |language: &String| {
            let known = LANGUAGES.iter().find(|(name, _)| name == language);
            known
                .map(|(_, algorithm)| Stemmer::create(*algorithm))
                .ok_or_else(|| {
                    let names: Vec<&str> = LANGUAGES.iter().map(|(name, _)| *name).collect();
                    Error::invalid_field(
                        "retrieval.languages",
                        format!("must be among {}", names.join(", ")),
                    )
                })
        };
        Ok(Self {
            stemmers: languages.iter().map(stemmer).collect::<Result<_>>()?,
        })
    }

    /// The distinct stems of a word, the first language's first. What has a digit is no word and stays.
    pub(super) fn of(&self, word: &str) -> Vec<String> {
        let word = word.to_lowercase();
        if self.stemmers.is_empty() || word.chars().any(char::is_numeric) {
            return vec![folded(&word)];
        }
        let mut stems: Vec<String> = Vec::with_capacity(1);
        for stemmer in &self.stemmers {
            let stem = folded(&stemmer.stem(&word));
            if !stems.contains(&stem) {
                stems.push(stem);
            }
        }
        stems
    }
}

/// Without accents: people leave them out.
fn folded(word: &str) -> String {
    if word.is_ascii() {
        return word.to_owned();
    }
    let bare: String = word.nfd().filter(|c| !is_combining_mark(*c)).collect();
    bare.replace('ß', "ss")
        .replace('ø', "o")
        .replace('ł', "l")
        .replace('đ', "d")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(languages: &[&str]) -> Stems {
        let names: Vec<String> = languages.iter().map(|l| (*l).to_owned()).collect();
        Stems::new(&names).unwrap()
    }

    #[test]
    fn forms_of_a_word_share_a_stem_and_codes_have_none() {
        let english = stems(&["english"]);
        assert_eq!(english.of("Rotations"), english.of("rotation"));
        assert_eq!(english.of("company's"), english.of("company"));
        assert_eq!(english.of("4711s"), ["4711s"]);
        assert_eq!(english.of("the"), ["the"], "no word is left out");
    }

    #[test]
    fn accents_may_be_left_out() {
        let none = stems(&[]);
        assert_eq!(none.of("Müller"), none.of("muller"));
        assert_eq!(none.of("naïve"), ["naive"]);
        assert_eq!(none.of("Straße"), ["strasse"]);
    }

    #[test]
    fn several_languages_give_several_stems_once_each() {
        let both = stems(&["english", "german"]);
        assert_eq!(both.of("häuser").len(), 2);
        assert_eq!(both.of("x"), ["x"]);
        assert_eq!(
            Stems::new(&["klingon".into()])
                .err()
                .and_then(|e| e.field().map(str::to_owned)),
            Some("retrieval.languages".into())
        );
    }
}
