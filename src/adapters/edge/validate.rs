//! What a point must be like before anything of its batch is written. Must not know the engine.

use crate::error::{Error, Result};
use crate::model::SparseVector;
use crate::spi::Point;

/// 2⁵³: the engine compares sequences as doubles.
const MAX_SEQUENCE: u64 = 1 << 53;

/// Checks every point of a batch.
///
/// # Errors
/// `Internal` naming what is wrong, never a value.
pub(super) fn points(points: &[Point], dimension: u32) -> Result<()> {
    points.iter().try_for_each(|point| one(point, dimension))
}

fn one(point: &Point, dimension: u32) -> Result<()> {
    let vectors = &point.vectors;
    if vectors.dense.len() != dimension as usize {
        return Err(Error::internal(format!(
            "a dense vector has width {}, the collection {dimension}",
            vectors.dense.len()
        )));
    }
    if !vectors.dense.iter().all(|x| x.is_finite()) {
        return Err(Error::internal(
            "a dense vector has a number that is not finite",
        ));
    }
    if !is_sound(&vectors.sparse) || !is_sound(&vectors.bm25) {
        return Err(Error::internal(
            "a sparse vector needs ascending indices and as many finite, positive values",
        ));
    }
    if point.stored.sequence > MAX_SEQUENCE {
        return Err(Error::internal("a sequence is beyond 2^53"));
    }
    Ok(())
}

/// Whether indices ascend strictly and values are finite, positive and as many.
pub(super) fn is_sound(vector: &SparseVector) -> bool {
    vector.indices.len() == vector.values.len()
        && vector.indices.is_sorted_by(|a, b| a < b)
        && vector.values.iter().all(|x| x.is_finite() && *x > 0.0)
}
