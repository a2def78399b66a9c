//! Texts of callers on a terminal or a page. Pure.
//!
//! A question is whatever somebody sent: control characters could rewrite the screen, marks of direction the order of what stands beside them.

/// The text on one line, of at most `width` characters, with nothing in it that is not shown.
pub(super) fn printable(text: &str, width: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let mut shown: String = line.chars().take(width).map(visible).collect();
    if line.chars().count() > width {
        shown.pop();
        shown.push('…');
    }
    shown
}

fn visible(c: char) -> char {
    let hidden = c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    if hidden { '\u{fffd}' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        assert_eq!(printable("a\u{1b}[2J b\n\tc", 20), "a\u{fffd}[2J b c");
        assert_eq!(printable("a\u{202e}b\u{85}c", 20), "a\u{fffd}b c");
        assert_eq!(printable("größer", 6), "größer");
        assert_eq!(printable("größere", 6), "größe…");
    }
}
