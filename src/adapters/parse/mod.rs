//! Plain text and Markdown bodies to text.
//!
//! Layer 3. Must not know chunks: it decodes, cleans and keeps the way back to the source's bytes.

mod clean;

pub use clean::clean_text;

use crate::error::{Error, Result};
use crate::spi::{DocumentParser, ParsedDocument, TextKind};

/// More undecodable bytes than this share of a body, and it is no text.
const MAX_LOSS: f64 = 0.1;

/// Parses plain text and Markdown.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextParser;

impl DocumentParser for TextParser {
    fn parse(&self, body: &[u8], media_type: &str, file_name: &str) -> Result<ParsedDocument> {
        let kind = kind_of(media_type, file_name)?;
        let (text, offsets, dropped) = clean_text(body);
        if dropped.undecodable as f64 > body.len() as f64 * MAX_LOSS {
            return Err(Error::invalid_field("data", "is no UTF-8 text"));
        }
        Ok(ParsedDocument {
            text,
            offsets,
            kind,
            warnings: dropped.warnings(),
        })
    }
}

fn kind_of(media_type: &str, file_name: &str) -> Result<TextKind> {
    let mut parts = media_type.split(';');
    let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    check_charset(parts)?;
    match essence.as_str() {
        "" => Ok(kind_of_name(file_name)),
        "text/plain" => Ok(TextKind::Plain),
        "text/markdown" | "text/x-markdown" => Ok(TextKind::Markdown),
        _ => Err(Error::invalid_field(
            "mediaType",
            "must be text/plain or text/markdown in this version",
        )),
    }
}

fn check_charset<'a>(parameters: impl Iterator<Item = &'a str>) -> Result<()> {
    for parameter in parameters {
        let Some((name, value)) = parameter.split_once('=') else {
            continue;
        };
        let value = value.trim().trim_matches('"').to_ascii_lowercase();
        let utf8 = matches!(value.as_str(), "utf-8" | "utf8" | "us-ascii");
        if name.trim().eq_ignore_ascii_case("charset") && !utf8 {
            return Err(Error::invalid_field(
                "mediaType",
                "must have the charset utf-8",
            ));
        }
    }
    Ok(())
}

fn kind_of_name(file_name: &str) -> TextKind {
    let ending = file_name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending.to_ascii_lowercase().as_str() {
        "md" | "markdown" | "mdown" => TextKind::Markdown,
        _ => TextKind::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_media_type_wins_over_the_name() {
        let kind = |m, f| TextParser.parse(b"x", m, f).expect("parses").kind;
        assert_eq!(kind("", "a.MD"), TextKind::Markdown);
        assert_eq!(kind("text/plain; charset=UTF-8", "a.md"), TextKind::Plain);
        assert_eq!(kind("text/markdown", ""), TextKind::Markdown);
    }

    #[test]
    fn what_is_no_text_is_refused_by_field() {
        let field = |body: &[u8], media| {
            let error = TextParser.parse(body, media, "").expect_err("refused");
            error.field().map(str::to_owned)
        };
        assert_eq!(field(b"x", "application/pdf").as_deref(), Some("mediaType"));
        assert_eq!(
            field(b"x", "text/plain; charset=latin1").as_deref(),
            Some("mediaType")
        );
        assert_eq!(field(&[0xff; 64], "").as_deref(), Some("data"));
    }

    #[test]
    fn a_little_damage_is_a_warning() {
        let mut body = b"a long enough sentence to lose one byte".to_vec();
        body.push(0xff);
        let parsed = TextParser.parse(&body, "", "").expect("parses");
        assert_eq!(parsed.warnings.len(), 1);
    }
}
