//! Means, percentiles and the scores of relevant and irrelevant chunks.

/// The mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        0.0
    } else {
        values.iter().sum::<f64>() / values.len() as f64
    }
}

/// The percentile (0–100) of sorted values by nearest rank: a value that occurred. 0 of nothing.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted
        .get(rank.min(sorted.len()).wrapping_sub(1))
        .copied()
        .unwrap_or(0.0)
}

/// Scores of one kind that judged chunks got.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scores {
    /// The kind, as the wire names it.
    pub kind: String,
    /// Of chunks of relevant documents.
    pub relevant: Vec<f64>,
    /// Of chunks of documents judged irrelevant. Unjudged ones are in neither.
    pub irrelevant: Vec<f64>,
}

impl Scores {
    /// Notes the score of a judged chunk.
    pub fn note(&mut self, score: f64, relevant: bool) {
        let side = if relevant {
            &mut self.relevant
        } else {
            &mut self.irrelevant
        };
        side.push(score);
    }

    /// Sorts both sides, for percentiles.
    pub fn sort(&mut self) {
        self.relevant.sort_by(f64::total_cmp);
        self.irrelevant.sort_by(f64::total_cmp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let at = |percent| percentile(&values, percent);
        assert_eq!(
            (at(0.0), at(50.0), at(95.0), at(100.0)),
            (1.0, 10.0, 19.0, 20.0)
        );
        assert_eq!(
            (percentile(&[], 50.0), percentile(&[7.0], 95.0)),
            (0.0, 7.0)
        );
    }
}
