//! Reciprocal rank fusion: the one implementation, pure and in a total order.
//!
//! Convention (Cormack, Clarke and Büttcher, SIGIR 2009): score = Σ wᵢ/(k + rankᵢ), rank from 1.
//! Stores that count from 0 are converted at their adapter, never here.

use std::collections::HashMap;
use std::hash::Hash;

/// The paper's k.
pub const DEFAULT_RRF_K: u32 = 60;

/// What one list contributes for a rank (from 1).
pub fn rrf_share(weight: f32, k: u32, rank: u32) -> f32 {
    weight / (k + rank) as f32
}

/// Fuses ranked lists (best first) of keys into (key, score), best first, ties by key.
///
/// A list of weight 0 contributes nothing. A key that stands twice in one list counts at its best rank.
pub fn rrf<K: Copy + Eq + Hash + Ord>(lists: &[(f32, Vec<K>)], k: u32) -> Vec<(K, f32)> {
    let mut scores: HashMap<K, f32> = HashMap::new();
    for (weight, list) in lists.iter().filter(|(weight, _)| *weight > 0.0) {
        let mut seen = std::collections::HashSet::new();
        for (rank, key) in (1u32..).zip(list) {
            if seen.insert(*key) {
                *scores.entry(*key).or_default() += rrf_share(*weight, k, rank);
            }
        }
    }
    let mut fused: Vec<(K, f32)> = scores.into_iter().collect();
    sort_ranked(&mut fused);
    fused
}

/// Sorts by score descending, then key: the order every ranking of ragbus has.
pub fn sort_ranked<K: Copy + Ord>(ranked: &mut [(K, f32)]) {
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_follow_the_paper() {
        let fused = rrf(&[(1.0, vec!['a', 'b']), (1.0, vec!['b', 'c'])], 60);
        assert_eq!(fused[0].0, 'b');
        assert!((fused[0].1 - (1.0 / 62.0 + 1.0 / 61.0)).abs() < 1e-7);
        assert_eq!(fused[1], ('a', 1.0 / 61.0));
        assert_eq!(fused[2], ('c', 1.0 / 62.0));
    }

    #[test]
    fn weights_are_linear_and_zero_removes_a_list() {
        let fused = rrf(&[(3.0, vec![1]), (0.0, vec![2])], 60);
        assert_eq!(fused, vec![(1, 3.0 / 61.0)]);
    }

    #[test]
    fn ties_are_broken_by_key() {
        let fused = rrf(&[(1.0, vec![9]), (1.0, vec![3])], 60);
        assert_eq!(fused.iter().map(|f| f.0).collect::<Vec<_>>(), vec![3, 9]);
    }

    #[test]
    fn a_repeated_key_counts_once_at_its_best_rank() {
        assert_eq!(rrf(&[(1.0, vec![1, 1])], 60), vec![(1, 1.0 / 61.0)]);
    }

    proptest::proptest! {
        #[test]
        fn a_single_list_keeps_its_order(len in 1u32..200, k in 1u32..1000) {
            let list: Vec<u32> = (0..len).rev().collect();
            let fused = rrf(&[(1.0, list.clone())], k);
            proptest::prop_assert_eq!(fused.into_iter().map(|f| f.0).collect::<Vec<_>>(), list);
        }
    }
}
