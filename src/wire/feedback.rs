//! Judgements from the wire. Must not know who judges or whether the retrieval exists.

use super::encoding::{Encoding, decode};
use super::v1;
use crate::error::{Error, Result};
use crate::model::{DocumentId, FeedbackOutcome, RetrievalId};

/// Decodes and validates a judgement.
///
/// # Errors
/// `Malformed` for what can't be decoded, `InvalidField` naming what is not allowed.
pub fn decode_feedback(
    body: &[u8],
    encoding: Encoding,
) -> Result<(RetrievalId, DocumentId, FeedbackOutcome)> {
    use v1::feedback_outcome::Kind;
    let request: v1::FeedbackRequest = decode(body, encoding)?;
    let id = RetrievalId::parse(&request.retrieval_id)
        .ok_or_else(|| Error::invalid_field("retrievalId", "must be the UUID of a retrieval"))?;
    let document = DocumentId::new(&request.document_id)?;
    let outcome = match Kind::try_from(request.outcome) {
        Ok(Kind::NotRelevant) => FeedbackOutcome::NotRelevant,
        Ok(Kind::PartiallyRelevant) => FeedbackOutcome::PartiallyRelevant,
        Ok(Kind::Relevant) => FeedbackOutcome::Relevant,
        Ok(Kind::HighlyRelevant) => FeedbackOutcome::HighlyRelevant,
        Ok(Kind::Unspecified) | Err(_) => {
            return Err(Error::invalid_field(
                "outcome",
                "must be NOT_RELEVANT, PARTIALLY_RELEVANT, RELEVANT or HIGHLY_RELEVANT",
            ));
        }
    };
    Ok((id, document, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const ID: &str = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

    fn refused(id: &str, document: &str, outcome: &str) -> (ErrorKind, Option<String>) {
        let body =
            format!(r#"{{"retrievalId":"{id}","documentId":"{document}","outcome":"{outcome}"}}"#);
        let error = decode_feedback(body.as_bytes(), Encoding::Json).expect_err("refused");
        (error.kind(), error.field().map(str::to_owned))
    }

    #[test]
    fn each_field_is_checked_by_name() {
        let body = format!(r#"{{"retrievalId":"{ID}","documentId":"d","outcome":"RELEVANT"}}"#);
        let (id, document, outcome) =
            decode_feedback(body.as_bytes(), Encoding::Json).expect("valid");
        assert_eq!((id.to_string().as_str(), document.as_str()), (ID, "d"));
        assert_eq!(outcome, FeedbackOutcome::Relevant);
        let invalid = |field: &str| (ErrorKind::InvalidField, Some(field.to_owned()));
        assert_eq!(refused("x", "d", "RELEVANT"), invalid("retrievalId"));
        assert_eq!(refused(ID, "", "RELEVANT"), invalid("documentId"));
        assert_eq!(refused(ID, "d", "KIND_UNSPECIFIED"), invalid("outcome"));
        assert_eq!(refused(ID, "d", "GOOD").0, ErrorKind::Malformed);
    }
}
