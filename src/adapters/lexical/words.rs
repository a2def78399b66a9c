//! A text to terms: what is counted, and what stands beside what. Pure.

use unicode_normalization::UnicodeNormalization;

use super::codes::{Code, code, grouped_account};
use super::stems::Stems;

/// What stands between the two words of a pair: no text holds it.
const PAIR: char = '\u{1f}';

/// A text's terms.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Every occurrence of every term: stems of parts, and whole codes.
    pub(super) terms: Vec<String>,
    /// The words in order, one term each: what pairs are made of.
    pub(super) sequence: Vec<String>,
}

/// Reads a text.
pub(super) fn words(text: &str, stems: &Stems) -> Words {
    // Compatibility forms (full width, ligatures) are the same letters; typographic apostrophes are apostrophes.
    let text: String = text
        .nfkc()
        .map(|c| if c == '’' { '\'' } else { c })
        .collect();
    let runs: Vec<&str> = text.split_whitespace().collect();
    let mut words = Words::default();
    for (at, run) in runs.iter().enumerate() {
        if let Some((_, account)) = grouped_account(&runs[at..]) {
            words.terms.push(account);
        }
        let Code { parts, whole } = code(run);
        for part in parts {
            let stems = stems.of(&part);
            words.sequence.extend(stems.first().cloned());
            words.terms.extend(stems);
        }
        words.terms.extend(whole);
    }
    words
}

/// The pairs of neighbours in a sequence, as terms of their own.
pub(super) fn pairs(sequence: &[String]) -> impl Iterator<Item = String> + '_ {
    sequence
        .windows(2)
        .map(|pair| format!("{}{PAIR}{}", pair[0], pair[1]))
}

/// What stands in quotation marks in a query.
pub(super) fn phrases(query: &str) -> Vec<&str> {
    const MARKS: [(char, &[char]); 4] = [
        ('"', &['"']),
        ('“', &['”', '“', '"']),
        ('„', &['“', '”', '"']),
        ('«', &['»']),
    ];
    let mut phrases = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(|c| MARKS.iter().any(|(open, _)| *open == c)) {
        let open = rest[start..].chars().next().unwrap_or('"');
        let inside = &rest[start + open.len_utf8()..];
        let closes = MARKS
            .iter()
            .find(|(mark, _)| *mark == open)
            .map_or(&['"'][..], |m| m.1);
        let Some(end) = inside.find(|c| closes.contains(&c)) else {
            break;
        };
        phrases.push(&inside[..end]);
        let close = inside[end..].chars().next().map_or(1, char::len_utf8);
        rest = &inside[end + close..];
    }
    phrases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_phrases_are_found_by_any_marks() {
        assert_eq!(phrases(r#"what is "a b" and "c"?"#), ["a b", "c"]);
        assert_eq!(
            phrases("„auf und zu“ «à côté» “x y”"),
            ["auf und zu", "à côté", "x y"]
        );
        assert!(phrases(r#"an open " quote"#).is_empty());
        assert_eq!(phrases(r#""""#), [""]);
    }

    #[test]
    fn full_width_letters_are_letters() {
        let stems = Stems::new(&[]).unwrap();
        assert_eq!(
            words("ＥＲＲ４７１１", &stems).terms,
            ["err", "4711", "err4711"]
        );
        assert_eq!(words("don’t", &stems).sequence, ["don't"]);
    }
}
