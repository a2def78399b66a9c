//! The caller's filter: a closed algebra over caller metadata, validated when it is built.
//!
//! Must not know system fields: tenant, document and sequence are out of a caller's reach.

use super::metadata::{is_exact, is_metadata_key};
use super::time::Timestamp;
use crate::error::{Error, Result};

/// The deepest nesting of filters.
pub const MAX_FILTER_DEPTH: usize = 8;
/// The most nodes of one filter.
pub const MAX_FILTER_NODES: usize = 64;
/// The most values of one `in`.
pub const MAX_IN_VALUES: usize = 1000;

const FIELD: &str = "filter";

/// A scalar that `eq` and `in` compare with; on a list field any element may match.
#[derive(Debug, Clone, PartialEq)]
pub enum FilterValue {
    /// Text, compared whole.
    String(String),
    /// A number, compared by value.
    Number(f64),
    /// A truth value.
    Bool(bool),
}

/// A bound of a range.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum Bound {
    /// A number.
    Number(f64),
    /// An RFC 3339 time.
    Time(Timestamp),
}

/// A range: at least one bound, all of one type, at most one lower and one upper.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Range {
    /// At least.
    pub gte: Option<Bound>,
    /// More than.
    pub gt: Option<Bound>,
    /// At most.
    pub lte: Option<Bound>,
    /// Less than.
    pub lt: Option<Bound>,
}

impl Range {
    /// The bounds that are set.
    pub fn bounds(&self) -> impl Iterator<Item = Bound> {
        [self.gte, self.gt, self.lte, self.lt].into_iter().flatten()
    }

    /// Whether the bounds are times (else numbers).
    pub fn is_time(&self) -> bool {
        self.bounds().any(|bound| matches!(bound, Bound::Time(_)))
    }
}

/// A validated filter. Build it with the wire's decoder and check it with [`Filter::validate`].
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// The field equals the value.
    Eq(String, FilterValue),
    /// The field equals one of the values.
    In(String, Vec<FilterValue>),
    /// The field lies in the range.
    Range(String, Range),
    /// The field is present.
    Exists(String),
    /// All hold.
    And(Vec<Filter>),
    /// At least one holds.
    Or(Vec<Filter>),
    /// It doesn't hold.
    Not(Box<Filter>),
}

impl Filter {
    /// Checks depth, size, field names and values of the whole tree.
    ///
    /// # Errors
    /// `InvalidField` on `filter`.
    pub fn validate(&self) -> Result<()> {
        let mut nodes = 0;
        self.check(1, &mut nodes)
    }

    fn check(&self, depth: usize, nodes: &mut usize) -> Result<()> {
        *nodes += 1;
        if depth > MAX_FILTER_DEPTH {
            return invalid("is nested deeper than 8");
        }
        if *nodes > MAX_FILTER_NODES {
            return invalid("has more than 64 nodes");
        }
        match self {
            Filter::Eq(field, value) => check_field(field).and_then(|()| check_value(value)),
            Filter::In(field, values) => check_field(field).and_then(|()| check_in(values)),
            Filter::Range(field, range) => check_field(field).and_then(|()| check_range(range)),
            Filter::Exists(field) => check_field(field),
            Filter::And(filters) | Filter::Or(filters) => {
                if filters.is_empty() {
                    return invalid("has an `and` or `or` without filters");
                }
                filters.iter().try_for_each(|f| f.check(depth + 1, nodes))
            }
            Filter::Not(inner) => inner.check(depth + 1, nodes),
        }
    }
}

fn invalid<T>(problem: &str) -> Result<T> {
    Err(Error::invalid_field(FIELD, problem))
}

fn check_field(field: &str) -> Result<()> {
    if is_metadata_key(field) {
        Ok(())
    } else {
        invalid("names a field that is no metadata key")
    }
}

fn check_value(value: &FilterValue) -> Result<()> {
    match value {
        FilterValue::Number(n) if !is_exact(*n) => {
            invalid("has a number that is not finite or an integer beyond 2^53")
        }
        FilterValue::Number(_) | FilterValue::String(_) | FilterValue::Bool(_) => Ok(()),
    }
}

fn check_in(values: &[FilterValue]) -> Result<()> {
    if values.is_empty() {
        return invalid("has an `in` without values");
    }
    if values.len() > MAX_IN_VALUES {
        return invalid("has an `in` of more than 1000 values");
    }
    values.iter().try_for_each(check_value)
}

fn check_range(range: &Range) -> Result<()> {
    let times = range.bounds().filter(|b| matches!(b, Bound::Time(_))).count();
    let all = range.bounds().count();
    if all == 0 {
        return invalid("has a range without bounds");
    }
    if times != 0 && times != all {
        return invalid("has a range that mixes numbers and times");
    }
    if (range.gte.is_some() && range.gt.is_some()) || (range.lte.is_some() && range.lt.is_some()) {
        return invalid("has a range with two bounds on one side");
    }
    let finite = |bound| match bound {
        Bound::Number(n) => f64::is_finite(n),
        Bound::Time(_) => true,
    };
    if range.bounds().all(finite) {
        Ok(())
    } else {
        invalid("has a range bound that is not finite")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exists() -> Filter {
        Filter::Exists("a".into())
    }

    #[test]
    fn depth_and_size_are_limited() {
        let nested = |depth| (1..depth).fold(exists(), |f, _| Filter::Not(Box::new(f)));
        assert!(nested(8).validate().is_ok());
        assert!(nested(9).validate().is_err());
        assert!(Filter::And(vec![exists(); 63]).validate().is_ok());
        assert!(Filter::And(vec![exists(); 64]).validate().is_err());
        assert!(Filter::Or(vec![]).validate().is_err());
    }

    #[test]
    fn system_fields_are_out_of_reach() {
        for field in ["_tenant", "sys.tenant", "", "a.b"] {
            assert!(Filter::Exists(field.into()).validate().is_err(), "{field}");
        }
    }

    #[test]
    fn ranges_are_sane() {
        let range = |gte, gt, lt| Filter::Range("y".into(), Range { gte, gt, lt, lte: None });
        let n = |x| Some(Bound::Number(x));
        let t = Some(Bound::Time(Timestamp::from_micros(0)));
        assert!(range(n(1.0), None, n(2.0)).validate().is_ok());
        assert!(range(None, None, None).validate().is_err());
        assert!(range(n(1.0), n(2.0), None).validate().is_err());
        assert!(range(n(1.0), None, t).validate().is_err());
        assert!(range(n(f64::NAN), None, None).validate().is_err());
    }
}
