//! Lines of a BEIR folder's `corpus.jsonl` and `queries.jsonl`. Must not know files.

use serde::Deserialize;

use crate::error::{Error, Result};

/// A line of `corpus.jsonl`; its metadata is not used.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Document {
    /// The document's id.
    #[serde(rename = "_id")]
    pub id: String,
    /// The title; often empty.
    #[serde(default)]
    pub title: String,
    /// The body.
    pub text: String,
}

/// A line of `queries.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Question {
    /// The query's id.
    #[serde(rename = "_id")]
    pub id: String,
    /// What is asked.
    pub text: String,
}

/// Reads line `number` (from 1) of the corpus `name`.
///
/// # Errors
/// `InvalidField` naming file and line.
pub fn document(name: &str, number: usize, line: &str) -> Result<Document> {
    read(name, number, line)
}

/// Reads line `number` (from 1) of the queries `name`.
///
/// # Errors
/// `InvalidField` naming file and line.
pub fn question(name: &str, number: usize, line: &str) -> Result<Question> {
    read(name, number, line)
}

fn read<T: serde::de::DeserializeOwned>(name: &str, number: usize, line: &str) -> Result<T> {
    serde_json::from_str(line).map_err(|e| {
        // The parser's own words may quote the text.
        let problem = match e.classify() {
            serde_json::error::Category::Data => "lacks _id or text, or one is no string",
            _ => "is no JSON object",
        };
        Error::invalid_field(name, format!("line {number} {problem}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_bad_ones_named() {
        let line = r#"{"_id":"1","title":"T","text":"body","metadata":{"x":1}}"#;
        let read = document("corpus.jsonl", 1, line).unwrap();
        assert_eq!(
            (read.id.as_str(), read.title.as_str(), read.text.as_str()),
            ("1", "T", "body")
        );
        assert_eq!(
            question("q", 1, r#"{"_id":"q1","text":"what?"}"#)
                .unwrap()
                .text,
            "what?"
        );
        let error = document("corpus.jsonl", 7, r#"{"_id":"1"}"#).unwrap_err();
        assert!(
            error.message().starts_with("corpus.jsonl line 7 lacks"),
            "{error}"
        );
        let error = question("queries.jsonl", 3, "secret words").unwrap_err();
        assert_eq!(error.chain(), "queries.jsonl line 3 is no JSON object");
    }
}
