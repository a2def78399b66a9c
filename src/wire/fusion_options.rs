//! Fusion options from the wire.

use super::options::{RetrieveRules, ranged};
use super::v1;
use crate::error::{Error, Result};
use crate::model::{FusionWeights, Leg};

const MAX_K: i32 = 1000;
const MAX_WEIGHT: f64 = 100.0;

/// Validates weights and k.
pub(super) fn fusion_of(
    fusion: Option<v1::FusionOptions>,
    rules: &RetrieveRules,
) -> Result<FusionWeights> {
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
    if !asked_legs(weights, rules).is_empty() {
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

/// The configured legs that have a weight.
pub(super) fn asked_legs(weights: &FusionWeights, rules: &RetrieveRules) -> Vec<Leg> {
    weighted(weights)
        .into_iter()
        .filter(|(leg, weight, _)| rules.legs.contains(leg) && weight.is_none_or(|w| w > 0.0))
        .map(|(leg, _, _)| leg)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::retrieve::tests::{decoded, decoded_with, refused, rules};
    use super::*;

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
}
