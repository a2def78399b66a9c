//! A language model's answer made usable: what it says around the text is taken off. Pure; an answer is data, and nothing in
//! it is ever obeyed.

/// The longest hypothetical document in characters: several times what a dense model reads.
const MAX_PASSAGE: usize = 4_000;
/// The longest broader question in characters.
const MAX_QUESTION: usize = 500;

/// How refusals begin.
const REFUSALS: [&str; 8] = [
    "i'm sorry",
    "i am sorry",
    "sorry, ",
    "i cannot",
    "i can't",
    "i can not",
    "as an ai",
    "i'm unable",
];

/// How lines begin that announce the text instead of being it.
const ANNOUNCEMENTS: [&str; 10] = [
    "here is",
    "here's",
    "here are",
    "sure",
    "certainly",
    "of course",
    "okay",
    "the following",
    "below is",
    "as requested",
];

/// What may stand before the text on its own line.
const LABELS: [&str; 10] = [
    "answer:",
    "passage:",
    "document:",
    "question:",
    "query:",
    "rewritten question:",
    "broader question:",
    "step-back question:",
    "hypothetical document:",
    "hypothetical passage:",
];

/// A passage from an answer; `None` when nothing usable is in it.
pub(super) fn passage(answer: &str) -> Option<String> {
    let text = body(answer);
    let lines: Vec<&str> = text
        .lines()
        .map(plain_line)
        .filter(|l| !l.is_empty())
        .collect();
    usable(&lines.join(" "), MAX_PASSAGE)
}

/// A question from an answer: its first line that says something.
pub(super) fn question(answer: &str) -> Option<String> {
    let text = body(answer);
    let line = text.lines().map(plain_line).find(|line| !line.is_empty())?;
    // A model that explains itself at length has not written a question.
    (line.chars().count() <= MAX_QUESTION)
        .then(|| usable(line, MAX_QUESTION))
        .flatten()
}

/// The answer without thoughts, fences, announcements and control characters.
fn body(answer: &str) -> String {
    let visible = without_thoughts(answer);
    let mut lines: Vec<&str> = visible
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("```"))
        .skip_while(|line| line.is_empty())
        .collect();
    let announces = |line: &str| {
        let low = line.to_lowercase();
        line.ends_with(':') && ANNOUNCEMENTS.iter().any(|start| low.starts_with(start))
    };
    if lines.first().is_some_and(|line| announces(line)) {
        lines.remove(0);
    }
    let text = lines.join("\n");
    let text = text.trim();
    let inline = inline_announcement(text).unwrap_or(text);
    inline
        .chars()
        .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
        .collect()
}

/// What stands behind "Here is the passage: …" on one line.
fn inline_announcement(text: &str) -> Option<&str> {
    let line = text.lines().next()?;
    let colon = line.find(": ")?;
    let low = line[..colon].to_lowercase();
    let announces = ANNOUNCEMENTS.iter().any(|start| low.starts_with(start));
    // A sentence that merely has a colon is text.
    (announces && colon < 80).then(|| text[colon + 2..].trim_start())
}

/// Reasoning models think aloud first; an unfinished thought leaves nothing.
fn without_thoughts(answer: &str) -> String {
    let mut rest = answer;
    let mut visible = String::new();
    while let Some(start) = rest.find("<think>") {
        visible.push_str(&rest[..start]);
        match rest[start..].find("</think>") {
            Some(end) => rest = &rest[start + end + "</think>".len()..],
            None => return visible,
        }
    }
    // Some servers cut the opening mark off.
    if let Some(end) = rest.find("</think>") {
        rest = &rest[end + "</think>".len()..];
        visible.clear();
    }
    visible.push_str(rest);
    visible
}

/// A line without label, number, bullet, emphasis and quotation marks around it.
fn plain_line(line: &str) -> &str {
    let mut line = line.trim();
    loop {
        let before = line;
        line = without_label(line);
        line = without_number(line);
        line = line.trim_start_matches(['#', '*', '•', '>']).trim_start();
        line = line.strip_prefix("- ").unwrap_or(line);
        line = line.trim_end_matches('*').trim();
        line = unquoted(line);
        if line == before {
            return line;
        }
    }
}

fn without_label(line: &str) -> &str {
    let low = line.to_lowercase();
    let label = LABELS.iter().find(|label| low.starts_with(**label));
    // Labels are ASCII, and so is what they match.
    label.map_or(line, |label| line[label.len()..].trim_start())
}

/// Takes "1. " or "2) " off; "1.5 mg" and "2026 was" stay.
fn without_number(line: &str) -> &str {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=2).contains(&digits) {
        return line;
    }
    let rest = &line[digits..];
    let rest = rest.strip_prefix(['.', ')']).filter(|r| r.starts_with(' '));
    rest.map_or(line, str::trim_start)
}

fn unquoted(line: &str) -> &str {
    const PAIRS: [(char, char); 6] = [
        ('"', '"'),
        ('\'', '\''),
        ('“', '”'),
        ('„', '“'),
        ('«', '»'),
        ('`', '`'),
    ];
    let inner = PAIRS.iter().find_map(|(open, close)| {
        let inner = line.strip_prefix(*open)?.strip_suffix(*close)?;
        (!inner.contains(*open) && !inner.contains(*close)).then_some(inner)
    });
    inner.map_or(line, str::trim)
}

fn usable(text: &str, longest: usize) -> Option<String> {
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let low = text.to_lowercase().replace('’', "'");
    let refused = REFUSALS.iter().any(|start| low.starts_with(start));
    let says_something = text.chars().any(char::is_alphanumeric);
    (says_something && !refused).then(|| text.chars().take(longest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_a_passage_is_taken_off() {
        let cases = [
            ("  Keys rotate yearly. ", "Keys rotate yearly."),
            ("\"Keys rotate yearly.\"", "Keys rotate yearly."),
            ("“Keys rotate.”", "Keys rotate."),
            ("Here is a passage:\n\nKeys rotate.", "Keys rotate."),
            ("Here's the passage: Keys rotate.", "Keys rotate."),
            (
                "Sure! Here is one:\n1. Keys rotate.\n2. Yearly.",
                "Keys rotate. Yearly.",
            ),
            ("```text\nKeys rotate.\n```", "Keys rotate."),
            ("**Passage:** Keys rotate.", "Keys rotate."),
            ("<think>hm</think>Keys rotate.", "Keys rotate."),
            ("hm, well</think>\nKeys rotate.", "Keys rotate."),
            ("Keys\u{0}rotate\r\nyearly.", "Keys rotate yearly."),
            ("- Keys rotate.\n- Yearly.", "Keys rotate. Yearly."),
        ];
        for (answer, expected) in cases {
            let got = passage(answer);
            let got = got.as_deref().map(|t| t.trim_start_matches("** "));
            assert_eq!(got, Some(expected), "{answer:?}");
        }
    }

    #[test]
    fn numbers_and_colons_that_are_text_stay() {
        for text in [
            "1.5 mg is the dose.",
            "2026 was the year.",
            "The rule: keys rotate.",
            "Sources say \"no\" and \"yes\".",
        ] {
            assert_eq!(passage(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn nothing_usable_is_nothing() {
        for answer in [
            "",
            " \n\t ",
            "```\n```",
            "...",
            "<think>still thinking",
            "I'm sorry, I can't help with that.",
            "I’m sorry, but no.",
            "As an AI model, I cannot know.",
            "Here is the passage:",
        ] {
            assert_eq!(passage(answer), None, "{answer:?}");
        }
    }

    #[test]
    fn a_question_is_one_line_of_sane_length() {
        assert_eq!(
            question("Broader question: \"How are keys managed?\"\nBecause ...").as_deref(),
            Some("How are keys managed?")
        );
        assert_eq!(question(&"x".repeat(501)), None);
        assert_eq!(passage(&"x".repeat(10_000)).map(|t| t.len()), Some(4_000));
    }

    proptest::proptest! {
        #[test]
        fn any_answer_is_survived_and_cleaning_is_stable(answer in "(?s).{0,300}") {
            if let Some(text) = passage(&answer) {
                proptest::prop_assert!(!text.trim().is_empty());
                proptest::prop_assert!(!text.chars().any(char::is_control));
            }
            let _ = question(&answer);
        }
    }
}
