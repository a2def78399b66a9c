//! JSON decoding errors, without the body's text: a parser's own message quotes the values it refuses.

use serde_json::error::Category;

/// What is wrong and where.
pub(super) fn describe(error: &serde_json::Error) -> String {
    let place = format!("line {} column {}", error.line(), error.column());
    match error.classify() {
        Category::Io | Category::Eof => format!("the JSON body ends too early at {place}"),
        Category::Syntax => format!("the body is not JSON at {place}"),
        Category::Data => format!("{} at {place}", data_problem(&error.to_string())),
    }
}

/// Keeps a field's name (it is a name of the protocol or a typo of one) and what was expected; drops values.
fn data_problem(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let name: String = rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .take(40)
            .collect();
        return format!("unknown field `{name}`");
    }
    if let Some(rest) = message.strip_prefix("duplicate field `") {
        let name: String = rest.chars().take_while(|c| *c != '`').take(40).collect();
        return format!("duplicate field `{name}`");
    }
    match expected(message) {
        Some(expected) => format!("wrong type or value, expected {expected}"),
        None => "wrong type or value".to_owned(),
    }
}

/// The last "expected …" of a message is the parser's own text; values stand before it.
fn expected(message: &str) -> Option<String> {
    let start = message.rfind(", expected ")? + ", expected ".len();
    let text = &message[start..];
    let end = text.rfind(" at line").unwrap_or(text.len());
    Some(text[..end].chars().take(200).collect())
}

#[cfg(test)]
mod tests {
    use crate::error::ErrorKind;
    use crate::wire::{Encoding, decode, v1};

    fn problem(json: &str) -> String {
        let error = decode::<v1::RetrieveRequest>(json.as_bytes(), Encoding::Json)
            .expect_err("must be refused");
        assert_eq!(error.kind(), ErrorKind::Malformed);
        error.message().to_owned()
    }

    #[test]
    fn names_stay_and_values_go() {
        assert!(problem(r#"{"querry":"canary"}"#).contains("unknown field `querry`"));
        for body in [
            r#"{"limit":"canary"}"#,
            r#"{"query":{"canary":1}}"#,
            r#"{"options":{"corrective":"canary"}}"#,
            r#"{"query":"canary"#,
            r#"canary"#,
            r#"{"filter":{"eq":{"field":7,"value":"canary, expected canary"}}}"#,
        ] {
            assert!(!problem(body).contains("canary"), "{}", problem(body));
        }
    }
}
