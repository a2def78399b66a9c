//! Cursors: where a page of retrievals or of judgements goes on. Opaque to callers, and none of another kind is taken.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::{Error, Result};
use crate::model::{DocumentId, RecordPosition, RetrievalId, Timestamp};

const RECORD_CURSOR: &str = "r1";
const JUDGEMENT_CURSOR: &str = "j1";

/// The cursor behind which a page of retrievals goes on. Opaque to callers.
pub fn record_cursor(after: RecordPosition) -> String {
    let (at, id) = (after.at.as_micros(), after.id);
    URL_SAFE_NO_PAD.encode(format!("{RECORD_CURSOR}:{at}:{id}:"))
}

/// The cursor behind which a page of judgements goes on.
pub fn judgement_cursor((after, document): &(RecordPosition, DocumentId)) -> String {
    let (at, id) = (after.at.as_micros(), after.id);
    let document = document.as_str();
    URL_SAFE_NO_PAD.encode(format!("{JUDGEMENT_CURSOR}:{at}:{id}:{document}"))
}

pub(super) fn read_record_cursor(cursor: &str) -> Result<Option<RecordPosition>> {
    if cursor.is_empty() {
        return Ok(None);
    }
    match position(cursor, RECORD_CURSOR) {
        Some((position, rest)) if rest.is_empty() => Ok(Some(position)),
        _ => Err(not_ours()),
    }
}

pub(super) fn read_judgement_cursor(cursor: &str) -> Result<Option<(RecordPosition, DocumentId)>> {
    if cursor.is_empty() {
        return Ok(None);
    }
    let (position, document) = position(cursor, JUDGEMENT_CURSOR).ok_or_else(not_ours)?;
    let document = DocumentId::new(&document).map_err(|_| not_ours())?;
    Ok(Some((position, document)))
}

fn position(cursor: &str, kind: &str) -> Option<(RecordPosition, String)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let mut parts = text.splitn(4, ':');
    if parts.next()? != kind {
        return None;
    }
    let at = Timestamp::from_micros(parts.next()?.parse().ok()?);
    let id = RetrievalId::parse(parts.next()?)?;
    Some((RecordPosition { at, id }, parts.next()?.to_owned()))
}

fn not_ours() -> Error {
    Error::invalid_field("cursor", "is none that a page gave")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_lead_back_and_not_into_each_other() {
        let position = RecordPosition {
            at: Timestamp::from_micros(-7),
            id: RetrievalId::from_u128(5),
        };
        let cursor = record_cursor(position);
        assert_eq!(read_record_cursor(&cursor).expect("ours"), Some(position));
        let document = DocumentId::new("a:b/ü").expect("valid");
        let judged = judgement_cursor(&(position, document.clone()));
        let read = read_judgement_cursor(&judged).expect("ours");
        assert_eq!(read, Some((position, document)));
        assert!(read_record_cursor(&judged).is_err());
        assert!(read_judgement_cursor(&cursor).is_err());
    }
}
