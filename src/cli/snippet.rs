//! The part of a text that shows best why it was found. Pure.

/// A window of about `width` characters with as many different query words as possible, on one line.
pub(super) fn snippet(
    text: &str,
    query: &str,
    width: usize,
    marks: Option<(&str, &str)>,
) -> String {
    let wanted = words_of(query);
    let words: Vec<&str> = text.split_whitespace().collect();
    let hits: Vec<Option<usize>> = words.iter().map(|word| position(word, &wanted)).collect();
    let start = best_start(&words, &hits, width);
    let mut shown = String::new();
    let mut length = 0;
    let mut end = start;
    for (word, hit) in words[start..].iter().zip(&hits[start..]) {
        length += word.chars().count() + 1;
        if length > width && end > start {
            break;
        }
        if end > start {
            shown.push(' ');
        }
        let word: String = word.chars().take(width).collect();
        match (hit, marks) {
            (Some(_), Some((on, off))) => shown.push_str(&format!("{on}{word}{off}")),
            _ => shown.push_str(&word),
        }
        end += 1;
    }
    let before = if start > 0 { "… " } else { "" };
    let after = if end < words.len() { " …" } else { "" };
    format!("{before}{shown}{after}")
}

fn words_of(query: &str) -> Vec<String> {
    // Short words stand everywhere: they don't show why a text was found.
    let words = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| w.chars().count() > 3);
    words.map(str::to_lowercase).collect()
}

/// Which query word a word begins with, or begins; so that plurals are seen.
fn position(word: &str, wanted: &[String]) -> Option<usize> {
    let plain: String = word
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    if plain.chars().count() < 4 {
        return None;
    }
    wanted
        .iter()
        .position(|w| plain.starts_with(w.as_str()) || w.starts_with(&plain))
}

fn best_start(words: &[&str], hits: &[Option<usize>], width: usize) -> usize {
    let mut best = (0, 0);
    for start in 0..words.len() {
        if start > 0 && hits[start].is_none() {
            continue;
        }
        let mut length = 0;
        let mut seen: std::collections::BTreeSet<usize> = std::collections::BTreeSet::new();
        for (word, hit) in words[start..].iter().zip(&hits[start..]) {
            length += word.chars().count() + 1;
            if length > width {
                break;
            }
            seen.extend(hit);
        }
        if seen.len() > best.0 {
            best = (seen.len(), start);
        }
    }
    // A few words before the first hit make it readable.
    best.1.saturating_sub(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_holds_the_words_of_the_query() {
        let text = format!(
            "{} rotate the signing keys every month {}",
            "filler ".repeat(80),
            "tail ".repeat(80)
        );
        let shown = snippet(&text, "how do I rotate keys?", 60, Some(("[", "]")));
        assert!(
            shown.contains("[rotate]") && shown.contains("[keys]"),
            "{shown}"
        );
        assert!(shown.starts_with('…') && shown.ends_with('…'));
    }

    #[test]
    fn odd_texts_do_not_panic() {
        assert_eq!(snippet("", "q", 20, None), "");
        let long = "ä".repeat(5_000);
        assert!(snippet(&long, "ääää", 20, None).chars().count() <= 24);
    }
}
