//! Which legs a request asks, with what weight. Pure.

use crate::model::{FusionWeights, Leg};

/// The legs to ask with their weights, in a fixed order; weight 0 removes a leg.
pub(super) fn asked(configured: &[Leg], weights: &FusionWeights) -> Vec<(Leg, f32)> {
    let weight = |leg| match leg {
        Leg::Dense => weights.dense,
        Leg::Sparse => weights.sparse,
        Leg::Bm25 => weights.bm25,
    };
    [Leg::Dense, Leg::Sparse, Leg::Bm25]
        .into_iter()
        .filter(|leg| configured.contains(leg))
        .map(|leg| (leg, weight(leg).unwrap_or(1.0)))
        .filter(|(_, weight)| *weight > 0.0)
        .collect()
}

/// Whether the store may fuse: its scores are those of weight 1.
pub(super) fn store_can_fuse(legs: &[(Leg, f32)]) -> bool {
    legs.iter()
        .all(|(_, weight)| (*weight - 1.0).abs() < f32::EPSILON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_zero_removes_a_leg_and_unset_is_one() {
        let weights = FusionWeights {
            dense: Some(0.0),
            ..FusionWeights::default()
        };
        let legs = asked(&[Leg::Sparse, Leg::Dense], &weights);
        assert_eq!(legs, vec![(Leg::Sparse, 1.0)]);
        assert!(store_can_fuse(&legs));
        let weights = FusionWeights {
            dense: Some(2.0),
            sparse: Some(2.0),
            ..weights
        };
        assert!(!store_can_fuse(&asked(
            &[Leg::Dense, Leg::Sparse],
            &weights
        )));
    }
}
