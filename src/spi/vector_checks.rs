//! What points and query vectors must be like before a store sees them. One place, so that no store accepts what another
//! refuses. Must not know a store.

use super::vector_store::{LegQuery, LegVector, Point};
use crate::error::{Error, Result};
use crate::model::{Leg, SparseVector};

/// 2⁵³: stores compare sequences as doubles.
const MAX_SEQUENCE: u64 = 1 << 53;

/// Checks every point of a batch against the width of its collection's dense vectors.
///
/// # Errors
/// `Internal` naming what is wrong, never a value.
pub fn check_points(points: &[Point], dimension: u32) -> Result<()> {
    points.iter().try_for_each(|point| one(point, dimension))
}

/// Checks a leg's query vector: of the leg's form, and a dense one of the given width.
///
/// # Errors
/// `Internal` naming the leg, never a value.
pub fn check_leg(leg: &LegQuery, dimension: u32) -> Result<()> {
    let fits = match (&leg.vector, leg.leg) {
        (LegVector::Dense(dense), Leg::Dense) => {
            dense.len() == dimension as usize && dense.iter().all(|x| x.is_finite())
        }
        (LegVector::Sparse(vector), Leg::Sparse | Leg::Bm25) => is_sound(vector),
        (LegVector::Dense(_), Leg::Sparse | Leg::Bm25) | (LegVector::Sparse(_), Leg::Dense) => {
            false
        }
    };
    if fits && leg.min_score.is_none_or(f32::is_finite) {
        Ok(())
    } else {
        Err(Error::internal(format!(
            "the query vector of leg {} is unusable",
            leg.leg.name()
        )))
    }
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
fn is_sound(vector: &SparseVector) -> bool {
    vector.indices.len() == vector.values.len()
        && vector.indices.is_sorted_by(|a, b| a < b)
        && vector.values.iter().all(|x| x.is_finite() && *x > 0.0)
}
