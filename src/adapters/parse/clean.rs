//! Bytes to text without control characters, with the way back to the bytes.

use crate::spi::OffsetMap;

/// What cleaning dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Control characters that were removed.
    pub controls: usize,
    /// Bytes that are no UTF-8, each run replaced by U+FFFD.
    pub undecodable: usize,
}

impl Dropped {
    /// One sentence for each kind of loss.
    pub fn warnings(self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.controls > 0 {
            warnings.push(format!("{} control characters were removed", self.controls));
        }
        if self.undecodable > 0 {
            warnings.push(format!(
                "{} bytes were no UTF-8 and were replaced",
                self.undecodable
            ));
        }
        warnings
    }
}

/// Decodes UTF-8 (a byte-order mark is skipped), replaces what can't be decoded, removes control characters.
///
/// Line feed, carriage return and tab stay; form feed, vertical tab and NEL become line feeds, so that words stay apart.
pub fn clean_text(body: &[u8]) -> (String, OffsetMap, Dropped) {
    let mut text = String::with_capacity(body.len());
    let mut offsets = OffsetMap::default();
    let mut dropped = Dropped::default();
    let mut at = 0;
    if body.starts_with("\u{feff}".as_bytes()) {
        at = 3;
        offsets.push(0, 3);
    }
    for piece in body[at..].utf8_chunks() {
        for character in piece.valid().chars() {
            let length = character.len_utf8();
            match cleaned(character) {
                Some(kept) if kept == character => text.push(kept),
                Some(kept) => {
                    offsets.push_replaced(text.len(), at);
                    text.push(kept);
                    offsets.push(text.len(), at + length);
                    dropped.controls += 1;
                }
                None => {
                    offsets.push(text.len(), at + length);
                    dropped.controls += 1;
                }
            }
            at += length;
        }
        if !piece.invalid().is_empty() {
            offsets.push_replaced(text.len(), at);
            text.push(char::REPLACEMENT_CHARACTER);
            at += piece.invalid().len();
            dropped.undecodable += piece.invalid().len();
            offsets.push(text.len(), at);
        }
    }
    (text, offsets, dropped)
}

fn cleaned(character: char) -> Option<char> {
    match character {
        '\n' | '\r' | '\t' => Some(character),
        '\u{b}' | '\u{c}' | '\u{85}' => Some('\n'),
        c if c.is_control() => None,
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nul_goes_and_pages_stay_apart() {
        let (text, offsets, dropped) = clean_text(b"\xef\xbb\xbfa\0b\x0cc");
        assert_eq!(text, "ab\nc");
        assert_eq!(
            dropped,
            Dropped {
                controls: 2,
                undecodable: 0
            }
        );
        assert_eq!(offsets.span(0, 1), (3, 4));
        assert_eq!(offsets.span(1, 2), (5, 6));
        assert_eq!(offsets.span(3, 4), (7, 8));
    }

    proptest! {
        #[test]
        fn every_kept_character_maps_back_to_itself(body in prop::collection::vec(any::<u8>(), 0..60)) {
            let (text, offsets, _) = clean_text(&body);
            for (start, character) in text.char_indices() {
                let end = start + character.len_utf8();
                let (from, to) = offsets.span(start, end);
                prop_assert!(from <= to && to <= body.len());
                if !matches!(character, '\n' | char::REPLACEMENT_CHARACTER) {
                    prop_assert_eq!(&body[from..to], &text.as_bytes()[start..end]);
                }
            }
        }
    }
}
