//! Whether two texts say the same in nearly the same words. Pure.

use std::collections::BTreeSet;

/// Shared words of all words (Jaccard) from which on a text is a near-copy.
const NEAR: f64 = 0.9;

/// Whether `text` repeats `other`: equal but for case and punctuation, or nearly the same words.
pub(super) fn is_copy(text: &str, other: &str) -> bool {
    let (a, b) = (words(text), words(other));
    if a.is_empty() && b.is_empty() {
        return text.trim() == other.trim();
    }
    let shared = a.intersection(&b).count() as f64;
    shared / a.union(&b).count() as f64 >= NEAR
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_order_and_punctuation_do_not_make_a_new_text() {
        assert!(is_copy("How are KEYS rotated?!", "how are keys rotated"));
        assert!(is_copy("?", " ? "));
        assert!(!is_copy("How are keys managed?", "How are keys rotated?"));
        assert!(!is_copy("", "x"));
    }
}
