//! Retrieval requests from the wire.

use super::encoding::{Encoding, decode};
use super::filter::filter_of;
use super::options::{RetrieveRules, options_of};
use super::v1;
use crate::error::{Error, Result};
use crate::model::{CorpusName, CorpusRef, QueryText, RetrievalRequest, TenantId};

/// Results when a request doesn't say.
pub const DEFAULT_LIMIT: u32 = 10;
/// The most results.
pub const MAX_LIMIT: u32 = 100;
/// The longest query in bytes.
pub const MAX_QUERY_BYTES: usize = 8 * 1024;

/// Decodes and validates a request of this tenant.
///
/// # Errors
/// `Malformed` for what can't be decoded, `InvalidField` for what is not allowed or not configured.
pub fn decode_retrieve(
    tenant: &TenantId,
    body: &[u8],
    encoding: Encoding,
    rules: &RetrieveRules,
) -> Result<RetrievalRequest> {
    let request: v1::RetrieveRequest = decode(body, encoding)?;
    let corpus = CorpusName::new(&request.corpus)?;
    check_query(&request.query)?;
    let filter = request.filter.map(filter_of).transpose()?;
    Ok(RetrievalRequest {
        corpus: CorpusRef::new(tenant.clone(), corpus),
        query: QueryText::original(request.query),
        limit: limit_of(request.limit)?,
        filter,
        options: options_of(request.options.unwrap_or_default(), rules)?,
        explain: request.explain.unwrap_or(false),
        depth_factor: 1,
    })
}

fn check_query(query: &str) -> Result<()> {
    if query.trim().is_empty() {
        return Err(Error::invalid_field("query", "must not be blank"));
    }
    if query.len() > MAX_QUERY_BYTES {
        return Err(Error::invalid_field(
            "query",
            "must not be longer than 8 KiB",
        ));
    }
    Ok(())
}

fn limit_of(limit: Option<i32>) -> Result<u32> {
    match limit.map(u32::try_from) {
        None => Ok(DEFAULT_LIMIT),
        Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
        Some(_) => Err(Error::invalid_field("limit", "must be 1 to 100")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::model::{Include, Leg, RetrievalOptions};

    pub(in super::super) fn rules() -> RetrieveRules {
        RetrieveRules {
            legs: vec![Leg::Dense, Leg::Sparse],
            rrf: true,
            cross_encoder: false,
            generator: false,
            may_expand: true,
            defaults: RetrievalOptions::default(),
        }
    }

    pub(in super::super) fn decoded_with(
        json: &str,
        rules: &RetrieveRules,
    ) -> Result<RetrievalRequest> {
        let tenant = TenantId::mint("t1").expect("valid");
        decode_retrieve(&tenant, json.as_bytes(), Encoding::Json, rules)
    }

    pub(in super::super) fn decoded(options: &str) -> Result<RetrievalRequest> {
        decoded_with(
            &format!(r#"{{"corpus":"c","query":"q",{options}}}"#),
            &rules(),
        )
    }

    pub(in super::super) fn refused(options: &str) -> String {
        let error = decoded(options).expect_err(options);
        assert_eq!(error.kind(), ErrorKind::InvalidField, "{options}");
        error.field().unwrap_or_default().to_owned()
    }

    #[test]
    fn both_spellings_and_all_defaults() {
        let request =
            decoded(r#""options":{"max_chunks_per_document":2,"minDense":0.5}"#).expect("valid");
        assert_eq!(request.limit, DEFAULT_LIMIT);
        assert_eq!(request.options.max_chunks_per_document, Some(2));
        assert_eq!(request.options.min_dense, Some(0.5));
        assert_eq!(request.options.include, Include::default());
        assert!(!request.explain);
    }

    #[test]
    fn limits_are_one_to_a_hundred() {
        assert_eq!(decoded(r#""limit":100"#).expect("valid").limit, 100);
        assert_eq!(decoded(r#""limit":5.0"#).expect("valid").limit, 5);
        for bad in ["-1", "0", "101"] {
            assert_eq!(refused(&format!(r#""limit":{bad}"#)), "limit");
        }
    }

    #[test]
    fn queries_are_bounded() {
        let query =
            |text: &str| decoded_with(&format!(r#"{{"corpus":"c","query":"{text}"}}"#), &rules());
        assert!(query(&"x".repeat(MAX_QUERY_BYTES)).is_ok());
        for bad in [" \u{3000} ".to_owned(), "x".repeat(MAX_QUERY_BYTES + 1)] {
            assert_eq!(query(&bad).expect_err("refused").field(), Some("query"));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let tenant = TenantId::mint("t1").expect("valid");
            let _ = decode_retrieve(&tenant, &body, Encoding::Protobuf, &rules());
            let _ = decode_retrieve(&tenant, &body, Encoding::Json, &rules());
        }
    }
}
