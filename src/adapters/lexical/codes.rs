//! A chunk between white space to its parts: `ERR_4711`, `ConcurrentHashMap`, `10,000`, `DE89 3704 …`. Pure.

use unicode_segmentation::UnicodeSegmentation;

/// A run without white space, cut to what can be searched for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Code {
    /// Its parts in order, in the case they came in.
    pub(super) parts: Vec<String>,
    /// The whole in lower case without separators, when it has several parts.
    pub(super) whole: Option<String>,
}

/// Reads one run.
pub(super) fn code(run: &str) -> Code {
    let trimmed = trim(run);
    let mut parts = Vec::new();
    for piece in trimmed
        .split(|c: char| !is_inner(c))
        .filter(|p| !p.is_empty())
    {
        for part in cased_parts(piece.trim_matches('\'')) {
            segment(part, &mut parts);
        }
    }
    let whole = whole(trimmed);
    let repeats = matches!(&parts[..], [only] if only.to_lowercase() == whole);
    Code {
        whole: (!whole.is_empty() && !repeats).then_some(whole),
        parts,
    }
}

/// An account number in groups of four joined to one: how many runs it takes and its text, lower case.
///
/// ISO 13616: two letters, two digits, then up to 30 letters and digits, printed in groups of four.
pub(super) fn grouped_account(runs: &[&str]) -> Option<(usize, String)> {
    let first = runs.first()?;
    let head = first.as_bytes();
    let starts = head.len() == 4
        && head[..2].iter().all(u8::is_ascii_uppercase)
        && head[2..].iter().all(u8::is_ascii_digit);
    if !starts {
        return None;
    }
    let mut joined = (*first).to_owned();
    let mut taken = 1;
    for run in &runs[1..] {
        let group = run.trim_end_matches(['.', ',', ';', ':', ')', '?', '!']);
        let fits = (1..=4).contains(&group.len())
            && group
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        if !fits || joined.len() + group.len() > 34 {
            break;
        }
        joined.push_str(group);
        taken += 1;
        if group.len() < 4 || group.len() != run.len() {
            break;
        }
    }
    (joined.len() >= 15).then(|| (taken, joined.to_lowercase()))
}

/// Letters, digits, marks and apostrophes stay together.
fn is_inner(c: char) -> bool {
    c.is_alphanumeric() || c == '\'' || is_mark(c)
}

/// Combining marks of Indic and other scripts are not alphanumeric by themselves.
fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

/// Punctuation around a run goes; `C++`, `C#` and `.NET` keep theirs.
fn trim(run: &str) -> &str {
    let run = run.trim_end_matches(|c: char| !is_inner(c) && !matches!(c, '+' | '#'));
    let run = run.trim_start_matches(|c: char| !is_inner(c) && !matches!(c, '.' | '#'));
    // A dot or hash in front says something only before a letter.
    match run.strip_prefix(['.', '#']) {
        Some(rest) if !rest.starts_with(char::is_alphabetic) => {
            rest.trim_start_matches(|c| !is_inner(c))
        }
        Some(_) | None => run,
    }
}

/// The run in lower case without separators. A point or comma between digits is part of the number, unless it groups
/// thousands.
fn whole(run: &str) -> String {
    if !run.chars().any(char::is_alphanumeric) {
        return String::new();
    }
    let number = !run.is_empty()
        && run
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | ','));
    let thousands = number && groups_thousands(run);
    let keeps = |c: char| match c {
        '.' | ',' => number && !thousands,
        // `C#`, `C++`, `.NET`.
        '+' | '#' => true,
        c => is_inner(c) && c != '\'',
    };
    run.chars()
        .filter(|c| keeps(*c))
        .flat_map(char::to_lowercase)
        .collect()
}

fn groups_thousands(number: &str) -> bool {
    let mut groups = number.split(',');
    let first = groups.next().unwrap_or_default();
    let rest: Vec<&str> = groups.collect();
    !rest.is_empty() && (1..=3).contains(&first.len()) && rest.iter().all(|g| g.len() == 3)
}

/// Cuts where case or kind changes: `fooBar`, `XMLHttp`, `err4711`.
fn cased_parts(piece: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = piece.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for i in 1..chars.len() {
        let (before, (at, now)) = (chars[i - 1].1, chars[i]);
        let next = chars.get(i + 1).map(|c| c.1);
        let camel = before.is_lowercase() && now.is_uppercase();
        let acronym =
            before.is_uppercase() && now.is_uppercase() && next.is_some_and(char::is_lowercase);
        let kind = before.is_numeric() != now.is_numeric()
            && (before.is_alphanumeric() && now.is_alphanumeric());
        if camel || acronym || kind {
            parts.push(&piece[start..at]);
            start = at;
        }
    }
    parts.push(&piece[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Scripts that are written without spaces are cut by Unicode's word boundaries (UAX 29).
fn segment(part: &str, parts: &mut Vec<String>) {
    if part.chars().any(|c| c >= '\u{0e00}') {
        parts.extend(part.unicode_words().map(str::to_owned));
    } else {
        parts.push(part.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(run: &str) -> (Vec<String>, Option<String>) {
        let code = code(run);
        (code.parts, code.whole)
    }

    fn strings(parts: &[&str]) -> Vec<String> {
        parts.iter().map(|p| (*p).to_owned()).collect()
    }

    #[test]
    fn codes_are_read_whole_and_in_parts() {
        let cases: [(&str, &[&str], Option<&str>); 18] = [
            ("ERR_4711", &["ERR", "4711"], Some("err4711")),
            ("err-4711,", &["err", "4711"], Some("err4711")),
            ("(ERR4711)", &["ERR", "4711"], Some("err4711")),
            (
                "ConcurrentHashMap",
                &["Concurrent", "Hash", "Map"],
                Some("concurrenthashmap"),
            ),
            (
                "XMLHttpRequest",
                &["XML", "Http", "Request"],
                Some("xmlhttprequest"),
            ),
            ("well-known", &["well", "known"], Some("wellknown")),
            ("don't", &["don't"], Some("dont")),
            ("\"quoted\"", &["quoted"], None),
            ("10,000", &["10", "000"], Some("10000")),
            ("5.5", &["5", "5"], Some("5.5")),
            ("4711", &["4711"], None),
            ("LOT-2024/117", &["LOT", "2024", "117"], Some("lot2024117")),
            (
                "user@mail.example",
                &["user", "mail", "example"],
                Some("usermailexample"),
            ),
            ("C++", &["C"], Some("c++")),
            ("C#", &["C"], Some("c#")),
            (".NET", &["NET"], Some("net")),
            ("B12", &["B", "12"], Some("b12")),
            ("...", &[], None),
        ];
        for (run, parts, whole) in cases {
            let whole = whole.map(str::to_owned);
            // `.NET` repeats its only part and needs no whole.
            let whole = whole.filter(|w| parts.len() != 1 || parts[0].to_lowercase() != *w);
            assert_eq!(read(run), (strings(parts), whole), "{run}");
        }
    }

    #[test]
    fn scripts_without_spaces_are_cut_by_their_words() {
        let (parts, _) = read("東京都");
        assert_eq!(parts, strings(&["東", "京", "都"]));
        assert_eq!(read("Straße").0, strings(&["Straße"]));
    }

    #[test]
    fn an_account_number_in_groups_is_one() {
        let runs = ["DE89", "3704", "0044", "0532", "0130", "00", "is"];
        assert_eq!(
            grouped_account(&runs),
            Some((6, "de89370400440532013000".into()))
        );
        assert_eq!(grouped_account(&["DE89", "3704", "is"]), None);
        assert_eq!(
            grouped_account(&["GB29", "NWBK", "6016", "1331", "9268", "19."]),
            Some((6, "gb29nwbk60161331926819".into()))
        );
        assert_eq!(grouped_account(&["word"]), None);
    }
}
