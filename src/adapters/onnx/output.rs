//! What a graph's output means: pooling, activation, normalisation, and the check that it is finite.
//!
//! Pure functions over slices. Must not know ONNX Runtime or queues.

use super::manifest::{DensePooling, PairActivation, SparseActivation, Task};
use crate::error::{Error, Result};
use crate::model::SparseVector;

/// How far from 1 the length of a vector may be that the graph normalised.
const LENGTH_TOLERANCE: f32 = 1e-3;

/// One input's result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Output {
    Dense(Vec<f32>),
    Sparse(SparseVector),
    /// A pair's raw score.
    Logit(f32),
}

/// A model's output follows its task, and ports are made by task.
pub(super) fn wrong_task() -> Error {
    Error::internal("a model gave another task's output")
}

/// A graph's output: `[batch, dim]`, or `[batch, tokens, dim]` when the graph doesn't pool; of pairs also `[batch]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputTensor<'a> {
    pub(super) shape: &'a [i64],
    pub(super) data: &'a [f32],
}

/// Reads one result per text of the batch.
///
/// # Errors
/// The outer one: the tensor's shape doesn't fit. An inner one: that text's numbers aren't usable.
pub(super) fn read(
    task: Task,
    dimension: usize,
    lengths: &[usize],
    tensor: OutputTensor<'_>,
) -> Result<Vec<Result<Output>>> {
    let batch = lengths.len();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let is_pair = matches!(task, Task::CrossEncoder { .. });
    let pooled = match *tensor.shape {
        [b] if is_pair && fits(b, batch) => true,
        [b, d] if fits(b, batch) && fits(d, dimension) => true,
        [b, t, d] if !is_pair && fits(b, batch) && fits(t, longest) && fits(d, dimension) => false,
        _ => {
            return Err(Error::internal(
                "the model's output has an unexpected shape",
            ));
        }
    };
    let row = if pooled {
        dimension
    } else {
        longest * dimension
    };
    if tensor.data.len() != batch * row {
        return Err(Error::internal("the model's output has an unexpected size"));
    }
    let rows = tensor.data.chunks_exact(row).zip(lengths);
    let results = rows.map(|(row, &length)| {
        let vectors = &row[..if pooled {
            dimension
        } else {
            length * dimension
        }];
        read_text(task, dimension, vectors)
    });
    Ok(results.collect())
}

/// One text's vectors, one per token or a single pooled one, to its result.
fn read_text(task: Task, dimension: usize, vectors: &[f32]) -> Result<Output> {
    if !vectors.iter().all(|value| value.is_finite()) {
        return Err(Error::internal("the model's output isn't finite"));
    }
    match task {
        Task::Dense {
            pooling,
            normalized,
        } => normalize(pool_dense(pooling, dimension, vectors), normalized).map(Output::Dense),
        Task::Sparse {
            activation,
            threshold,
        } => {
            let scores = pool_max(dimension, vectors);
            Ok(Output::Sparse(sparse(scores, activation, threshold)))
        }
        Task::CrossEncoder { activation } => logit(vectors[0], activation).map(Output::Logit),
    }
}

fn fits(actual: i64, expected: usize) -> bool {
    usize::try_from(actual) == Ok(expected)
}

fn pool_dense(pooling: DensePooling, dimension: usize, vectors: &[f32]) -> Vec<f32> {
    let tokens = vectors.len() / dimension;
    match pooling {
        DensePooling::Cls => vectors[..dimension].to_vec(),
        DensePooling::Mean => {
            let mut mean = vec![0.0; dimension];
            for vector in vectors.chunks_exact(dimension) {
                for (sum, value) in mean.iter_mut().zip(vector) {
                    *sum += value / tokens as f32;
                }
            }
            mean
        }
    }
}

/// The largest score of each term over the tokens: log(1 + relu) is monotone, so it may follow.
fn pool_max(dimension: usize, vectors: &[f32]) -> Vec<f32> {
    let mut largest = vectors[..dimension].to_vec();
    for vector in vectors.chunks_exact(dimension).skip(1) {
        for (max, &value) in largest.iter_mut().zip(vector) {
            *max = max.max(value);
        }
    }
    largest
}

fn normalize(mut vector: Vec<f32>, normalized: bool) -> Result<Vec<f32>> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if normalized {
        return if (length - 1.0).abs() <= LENGTH_TOLERANCE {
            Ok(vector)
        } else {
            Err(Error::internal(
                "the model's output isn't normalised as its manifest says",
            ))
        };
    }
    if !(length.is_finite() && length > 0.0) {
        return Err(Error::internal("the model's output has no direction"));
    }
    for value in &mut vector {
        *value /= length;
    }
    Ok(vector)
}

fn sparse(scores: Vec<f32>, activation: SparseActivation, threshold: f32) -> SparseVector {
    let mut vector = SparseVector::default();
    for (index, score) in (0..).zip(scores) {
        let weight = match activation {
            SparseActivation::InGraph => score,
            SparseActivation::Log1pRelu => score.max(0.0).ln_1p(),
        };
        // A threshold is never negative, so what is kept is positive.
        if weight > threshold {
            vector.indices.push(index);
            vector.values.push(weight);
        }
    }
    vector
}

/// A probability's logit is its log-odds, ln(p / (1 − p)). The ends have none, so they count as the nearest numbers
/// within, which keeps the order: from −87.3 to 16.6.
fn logit(value: f32, activation: PairActivation) -> Result<f32> {
    match activation {
        PairActivation::Sigmoid => Ok(value),
        PairActivation::InGraph if !(0.0..=1.0).contains(&value) => Err(Error::internal(
            "the model's output isn't a probability as its manifest says",
        )),
        PairActivation::InGraph => {
            let p = f64::from(value.clamp(f32::MIN_POSITIVE, 1.0f32.next_down()));
            Ok((p / (1.0 - p)).ln() as f32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const MEAN: Task = Task::Dense {
        pooling: DensePooling::Mean,
        normalized: false,
    };
    const CLS: Task = Task::Dense {
        pooling: DensePooling::Cls,
        normalized: false,
    };
    const SPLADE: Task = Task::Sparse {
        activation: SparseActivation::Log1pRelu,
        threshold: 0.0,
    };

    const LOGIT: Task = Task::CrossEncoder {
        activation: PairActivation::Sigmoid,
    };
    const PROBABILITY: Task = Task::CrossEncoder {
        activation: PairActivation::InGraph,
    };

    fn logits(task: Task, shape: &[i64], data: &[f32]) -> Vec<Result<f32>> {
        let read = read(task, 1, &vec![3; data.len()], tensor(shape, data)).unwrap();
        let logit = |output| match output {
            Output::Logit(logit) => logit,
            other => panic!("no logit: {other:?}"),
        };
        read.into_iter().map(|pair| pair.map(logit)).collect()
    }

    fn tensor<'a>(shape: &'a [i64], data: &'a [f32]) -> OutputTensor<'a> {
        OutputTensor { shape, data }
    }

    fn dense(result: &Result<Output>) -> &[f32] {
        match result {
            Ok(Output::Dense(vector)) => vector,
            other => panic!("no dense vector: {other:?}"),
        }
    }

    #[test]
    fn token_vectors_are_pooled_without_padding() {
        // Two texts of 1 and 2 tokens; the first one's second row is padding.
        let data = [3.0, 4.0, 9.0, 9.0, 1.0, 0.0, 0.0, 1.0];
        let mean = read(MEAN, 2, &[1, 2], tensor(&[2, 2, 2], &data)).unwrap();
        assert_eq!(dense(&mean[0]), [0.6, 0.8]);
        assert!((dense(&mean[1])[0] - 0.5f32.sqrt()).abs() < 1e-6);
        let cls = read(CLS, 2, &[1, 2], tensor(&[2, 2, 2], &data)).unwrap();
        assert_eq!(dense(&cls[1]), [1.0, 0.0]);
    }

    #[test]
    fn sparse_weights_are_the_activated_maximum_and_positive() {
        let data = [1.0, -2.0, 0.0, 0.5, -1.0, 3.0];
        let results = read(SPLADE, 3, &[2], tensor(&[1, 2, 3], &data)).unwrap();
        let Ok(Output::Sparse(vector)) = &results[0] else {
            panic!("no sparse vector")
        };
        assert_eq!(vector.indices, [0, 2]);
        assert_eq!(vector.values, [1.0f32.ln_1p(), 3.0f32.ln_1p()]);
    }

    #[test]
    fn a_text_with_unusable_numbers_fails_alone() {
        for bad in [f32::NAN, f32::INFINITY] {
            let data = [1.0, 0.0, bad, 1.0, 0.0, 0.0, 0.0, 2.0];
            let results = read(MEAN, 2, &[5, 5, 5, 5], tensor(&[4, 2], &data)).unwrap();
            assert_eq!(dense(&results[0]), [1.0, 0.0]);
            assert_eq!(results[1].as_ref().unwrap_err().kind(), ErrorKind::Internal);
            assert_eq!(results[2].as_ref().unwrap_err().kind(), ErrorKind::Internal);
            assert_eq!(dense(&results[3]), [0.0, 1.0]);
        }
    }

    #[test]
    fn a_claimed_length_of_one_is_checked() {
        let task = Task::Dense {
            pooling: DensePooling::Mean,
            normalized: true,
        };
        let results = read(task, 2, &[3, 3], tensor(&[2, 2], &[0.6, 0.8, 3.0, 4.0])).unwrap();
        assert_eq!(dense(&results[0]), [0.6, 0.8]);
        assert!(results[1].is_err());
    }

    #[test]
    fn a_wrong_shape_is_an_error_of_the_whole_batch() {
        for shape in [&[2, 3][..], &[1, 2], &[2, 7, 2], &[4], &[-1, 2]] {
            assert!(read(MEAN, 2, &[1, 2], tensor(shape, &[0.0; 4])).is_err());
        }
    }

    #[test]
    fn a_logit_is_read_with_one_axis_or_two_and_a_bad_one_fails_alone() {
        for shape in [&[3, 1][..], &[3]] {
            let read = logits(LOGIT, shape, &[-1.5, f32::NAN, 7.25]);
            assert_eq!(*read[0].as_ref().unwrap(), -1.5);
            assert_eq!(read[1].as_ref().unwrap_err().kind(), ErrorKind::Internal);
            assert_eq!(*read[2].as_ref().unwrap(), 7.25);
        }
        for shape in [&[1, 3, 1][..], &[1, 1, 3], &[1, 3], &[3, 2], &[2, 1], &[2]] {
            assert!(read(LOGIT, 1, &[3; 3], tensor(shape, &[0.0; 3])).is_err());
        }
    }

    #[test]
    fn a_probability_becomes_its_log_odds_finite_and_in_order() {
        let rising = [0.0, 1e-30, 1e-9, 0.25, 0.5, 0.75, 0.999_999, 1.0];
        let read = logits(PROBABILITY, &[8, 1], &rising);
        let read: Vec<f32> = read.into_iter().map(Result::unwrap).collect();
        assert!(read.iter().all(|logit| logit.is_finite()), "{read:?}");
        assert!(read.is_sorted_by(|a, b| a < b), "{read:?}");
        assert_eq!(read[4], 0.0);
        assert!((read[5] - 3.0f32.ln()).abs() < 1e-6 && (read[3] + read[5]).abs() < 1e-6);
        let read = logits(PROBABILITY, &[3], &[-0.1, 0.5, 1.1]);
        assert!(read[0].is_err() && read[1].is_ok() && read[2].is_err());
    }
}
