//! Retrieval requests from the wire.

use super::encoding::{Encoding, decode};
use super::filter::filter_of;
use super::v1;
use crate::error::{Error, Result};
use crate::model::{
    CorpusName, CorpusRef, FusionWeights, Include, Leg, Origin, QueryText, RetrievalOptions,
    RetrievalRequest, StageName, TenantId,
};

/// Results when a request doesn't say.
pub const DEFAULT_LIMIT: u32 = 10;
/// The most results.
pub const MAX_LIMIT: u32 = 100;
/// The longest query in bytes.
pub const MAX_QUERY_BYTES: usize = 8 * 1024;

const MAX_K: i32 = 1000;
const MAX_WEIGHT: f64 = 100.0;

/// What this worker is configured for: options outside it are refused by name.
#[derive(Debug, Clone)]
pub struct RetrieveRules {
    /// The configured legs.
    pub legs: Vec<Leg>,
    /// Whether legs are fused by RRF (else DBSF, which knows no k and no weights).
    pub rrf: bool,
    /// The enabled stages.
    pub stages: Vec<StageName>,
}

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
        query: QueryText {
            text: request.query,
            expanded_text: None,
            origin: Origin::Original,
        },
        limit: limit_of(request.limit)?,
        filter,
        options: options_of(request.options.unwrap_or_default(), rules)?,
        explain: request.explain.unwrap_or(false),
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

fn options_of(options: v1::RetrieveOptions, rules: &RetrieveRules) -> Result<RetrievalOptions> {
    refuse_unbuilt(&options)?;
    let min_relevance = ranged("options.minRelevance", options.min_relevance, 0.0, 1.0)?;
    let min_dense = ranged("options.minDense", options.min_dense, -1.0, 1.0)?;
    let fusion = fusion_of(options.fusion, rules)?;
    let parsed = RetrievalOptions {
        min_dense,
        min_relevance,
        fusion,
        require: required(&options.require, rules)?,
        include: include_of(&options.include)?,
        max_chunks_per_document: chunks_per_document(options.max_chunks_per_document)?,
    };
    check_dense_floor(&parsed, rules)?;
    check_relevance_floor(&parsed, rules)?;
    Ok(parsed)
}

/// Options whose stage this version doesn't have yet are refused, never ignored.
fn refuse_unbuilt(options: &v1::RetrieveOptions) -> Result<()> {
    use v1::corrective::Mode;
    use v1::expansion_options::Strategy;
    let expansion = options.expansion.as_ref();
    let expands = expansion.is_some_and(|e| {
        e.hypotheticals.is_some()
            || !matches!(
                Strategy::try_from(e.strategy),
                Ok(Strategy::Unspecified | Strategy::None)
            )
    });
    let corrects = !matches!(
        Mode::try_from(options.corrective),
        Ok(Mode::Unspecified | Mode::Off)
    );
    let unbuilt = [
        ("options.expansion", expands),
        ("options.corrective", corrects),
        ("options.rerank", options.rerank == Some(true)),
        ("options.rerankAgainst", options.rerank_against != 0),
    ];
    match unbuilt.into_iter().find(|(_, asked)| *asked) {
        Some((field, _)) => Err(Error::invalid_field(
            field,
            "needs a stage that this version doesn't have",
        )),
        None => Ok(()),
    }
}

fn ranged(field: &str, value: Option<f64>, low: f64, high: f64) -> Result<Option<f32>> {
    match value {
        None => Ok(None),
        Some(v) if (low..=high).contains(&v) => Ok(Some(v as f32)),
        Some(_) => Err(Error::invalid_field(
            field,
            format!("must be {low} to {high}"),
        )),
    }
}

fn fusion_of(fusion: Option<v1::FusionOptions>, rules: &RetrieveRules) -> Result<FusionWeights> {
    let Some(fusion) = fusion else {
        return Ok(FusionWeights::default());
    };
    let k = fusion.k.map(|k| match u32::try_from(k) {
        Ok(k) if (1..=MAX_K as u32).contains(&k) => Ok(k),
        _ => Err(Error::invalid_field(
            "options.fusion.k",
            "must be 1 to 1000",
        )),
    });
    let weight =
        |field: &str, value| ranged(&format!("options.fusion.{field}"), value, 0.0, MAX_WEIGHT);
    let weights = FusionWeights {
        k: k.transpose()?,
        dense: weight("denseWeight", fusion.dense_weight)?,
        sparse: weight("sparseWeight", fusion.sparse_weight)?,
        bm25: weight("bm25Weight", fusion.bm25_weight)?,
    };
    if !rules.rrf && weights != FusionWeights::default() {
        return Err(Error::invalid_field(
            "options.fusion",
            "has no meaning with dbsf fusion",
        ));
    }
    check_weights(&weights, rules)?;
    Ok(weights)
}

/// A weight needs its leg, and at least one leg must be left.
fn check_weights(weights: &FusionWeights, rules: &RetrieveRules) -> Result<()> {
    for (leg, weight, field) in weighted(weights) {
        if weight.is_some_and(|w| w > 0.0) && !rules.legs.contains(&leg) {
            return Err(Error::invalid_field(
                field,
                "names a leg that is not in retrieval.legs",
            ));
        }
    }
    let left = weighted(weights)
        .into_iter()
        .any(|(leg, weight, _)| rules.legs.contains(&leg) && weight.is_none_or(|w| w > 0.0));
    if left {
        Ok(())
    } else {
        Err(Error::invalid_field(
            "options.fusion",
            "must leave one leg a weight above 0",
        ))
    }
}

fn weighted(weights: &FusionWeights) -> [(Leg, Option<f32>, &'static str); 3] {
    [
        (Leg::Dense, weights.dense, "options.fusion.denseWeight"),
        (Leg::Sparse, weights.sparse, "options.fusion.sparseWeight"),
        (Leg::Bm25, weights.bm25, "options.fusion.bm25Weight"),
    ]
}

fn check_dense_floor(options: &RetrievalOptions, rules: &RetrieveRules) -> Result<()> {
    let dense = rules.legs.contains(&Leg::Dense) && options.fusion.dense.is_none_or(|w| w > 0.0);
    if options.min_dense.is_some() && !dense {
        return Err(Error::invalid_field(
            "options.minDense",
            "needs the dense leg",
        ));
    }
    Ok(())
}

fn check_relevance_floor(options: &RetrievalOptions, rules: &RetrieveRules) -> Result<()> {
    let asked: Vec<Leg> = weighted(&options.fusion)
        .into_iter()
        .filter(|(leg, weight, _)| rules.legs.contains(leg) && weight.is_none_or(|w| w > 0.0))
        .map(|(leg, _, _)| leg)
        .collect();
    if options.min_relevance.is_some() && asked != [Leg::Dense] {
        return Err(Error::invalid_field(
            "options.minRelevance",
            "needs a final score of COSINE or CROSS_ENCODER; fused scores are no confidence",
        ));
    }
    Ok(())
}

fn required(names: &[String], rules: &RetrieveRules) -> Result<Vec<StageName>> {
    let stage = |name: &String| {
        StageName::parse(name)
            .filter(|stage| rules.stages.contains(stage))
            .ok_or_else(|| {
                Error::invalid_field("options.require", "names a stage that is not enabled")
            })
    };
    names.iter().map(stage).collect()
}

fn include_of(parts: &[i32]) -> Result<Include> {
    use v1::include::Part;
    if parts.is_empty() {
        return Ok(Include::default());
    }
    let mut include = Include {
        content: false,
        metadata: false,
    };
    for part in parts {
        match Part::try_from(*part) {
            Ok(Part::Content) => include.content = true,
            Ok(Part::Metadata) => include.metadata = true,
            Ok(Part::Unspecified) | Err(_) => {
                return Err(Error::invalid_field(
                    "options.include",
                    "must be CONTENT or METADATA",
                ));
            }
        }
    }
    Ok(include)
}

fn chunks_per_document(most: Option<i32>) -> Result<Option<u32>> {
    match most.map(u32::try_from) {
        None => Ok(None),
        Some(Ok(most)) if most >= 1 => Ok(Some(most)),
        Some(_) => Err(Error::invalid_field(
            "options.maxChunksPerDocument",
            "must be at least 1",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn rules() -> RetrieveRules {
        RetrieveRules {
            legs: vec![Leg::Dense, Leg::Sparse],
            rrf: true,
            stages: vec![StageName::Hybrid],
        }
    }

    fn decoded_with(json: &str, rules: &RetrieveRules) -> Result<RetrievalRequest> {
        let tenant = TenantId::mint("t1").expect("valid");
        decode_retrieve(&tenant, json.as_bytes(), Encoding::Json, rules)
    }

    fn decoded(options: &str) -> Result<RetrievalRequest> {
        decoded_with(
            &format!(r#"{{"corpus":"c","query":"q",{options}}}"#),
            &rules(),
        )
    }

    fn refused(options: &str) -> String {
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
    fn a_stage_that_is_not_there_is_named() {
        for (options, field) in [
            (
                r#""options":{"expansion":{"strategy":"HYDE"}}"#,
                "options.expansion",
            ),
            (r#""options":{"corrective":"FILTER"}"#, "options.corrective"),
            (r#""options":{"rerank":true}"#, "options.rerank"),
            (
                r#""options":{"rerankAgainst":"BEST_QUERY"}"#,
                "options.rerankAgainst",
            ),
            (r#""options":{"require":["reranking"]}"#, "options.require"),
            (
                r#""options":{"fusion":{"bm25Weight":1}}"#,
                "options.fusion.bm25Weight",
            ),
        ] {
            assert_eq!(refused(options), field);
        }
        let off = r#""options":{"expansion":{"strategy":"NONE"},"corrective":"OFF","rerank":false,"require":["hybrid"]}"#;
        assert!(decoded(off).is_ok());
    }

    #[test]
    fn fusion_options_are_checked_together() {
        for (options, field) in [
            (r#""options":{"fusion":{"k":0}}"#, "options.fusion.k"),
            (r#""options":{"fusion":{"k":1001}}"#, "options.fusion.k"),
            (
                r#""options":{"fusion":{"denseWeight":-1}}"#,
                "options.fusion.denseWeight",
            ),
            (
                r#""options":{"fusion":{"denseWeight":0,"sparseWeight":0}}"#,
                "options.fusion",
            ),
            (
                r#""options":{"fusion":{"denseWeight":0},"minDense":0.2}"#,
                "options.minDense",
            ),
            (r#""options":{"minRelevance":0.2}"#, "options.minRelevance"),
            (
                r#""options":{"include":["PART_UNSPECIFIED"]}"#,
                "options.include",
            ),
            (
                r#""options":{"maxChunksPerDocument":0}"#,
                "options.maxChunksPerDocument",
            ),
        ] {
            assert_eq!(refused(options), field);
        }
        let dense_only = r#""options":{"fusion":{"sparseWeight":0},"minRelevance":0.2}"#;
        assert!(decoded(dense_only).is_ok());
        let dbsf = RetrieveRules {
            rrf: false,
            ..rules()
        };
        let with_k = r#"{"corpus":"c","query":"q","options":{"fusion":{"k":60}}}"#;
        assert!(decoded_with(with_k, &dbsf).is_err());
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
