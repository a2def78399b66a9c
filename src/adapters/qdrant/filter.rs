//! Filters to the server's conditions.
//!
//! Callers reach metadata only: every field is a path below the metadata key. The server's equality knows integers only,
//! so numbers compile to closed ranges. Its "empty" counts an empty list as absent, which callers do not expect of
//! `exists`: a key is there when it counts at least 0 values. Its time ranges also read stored texts that are almost
//! RFC 3339 (a date alone, no zone = UTC). Must not know queries.

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::r#match::MatchValue;

use super::payload::point_id;
use crate::adapters::payload_names::{DOCUMENT, METADATA, SEQUENCE, TENANT};
use crate::error::{Error, Result};
use crate::model::{Bound, ChunkId, DocumentId, Filter, FilterValue, Range, TenantId};

const MICROS: i64 = 1_000_000;

/// What restricts a call to its tenant.
pub(super) fn of_tenant(tenant: &TenantId) -> qd::Filter {
    qd::Filter::must([keyword(TENANT, tenant.as_str())])
}

/// The same with the caller's filter beside it.
///
/// # Errors
/// `InvalidField` for a range that mixes numbers and times.
pub(super) fn scoped(tenant: &TenantId, filter: Option<&Filter>) -> Result<qd::Filter> {
    let mut scoped = of_tenant(tenant);
    if let Some(filter) = filter {
        scoped.must.push(condition(filter)?);
    }
    Ok(scoped)
}

/// The points of a document whose sequence lies in a range.
pub(super) fn of_document(
    tenant: &TenantId,
    document: &DocumentId,
    sequence: qd::Range,
) -> qd::Filter {
    let mut filter = up_to(tenant, sequence);
    filter.must.push(keyword(DOCUMENT, document.as_str()));
    filter
}

/// The tenant's points whose sequence lies in a range.
pub(super) fn up_to(tenant: &TenantId, sequence: qd::Range) -> qd::Filter {
    let mut filter = of_tenant(tenant);
    filter.must.push(range(SEQUENCE.to_owned(), sequence));
    filter
}

/// The same restricted to ids.
pub(super) fn among(mut filter: qd::Filter, ids: impl Iterator<Item = ChunkId>) -> qd::Filter {
    filter.must.push(qd::Condition::has_id(ids.map(point_id)));
    filter
}

/// A text field equals a value.
pub(super) fn keyword(field: &str, value: &str) -> qd::Condition {
    matches(field.to_owned(), MatchValue::Keyword(value.to_owned()))
}

/// A closed range of one number.
pub(super) fn exactly(number: f64) -> qd::Range {
    qd::Range {
        gte: Some(number),
        lte: Some(number),
        ..Default::default()
    }
}

fn condition(filter: &Filter) -> Result<qd::Condition> {
    match filter {
        Filter::Eq(name, value) => Ok(equals(name, value)),
        Filter::In(name, values) => Ok(is_one_of(name, values)),
        Filter::Range(name, range) => within(name, range),
        Filter::Exists(name) => Ok(exists(name)),
        Filter::And(filters) => Ok(qd::Filter::must(conditions(filters)?).into()),
        Filter::Or(filters) => Ok(qd::Filter::should(conditions(filters)?).into()),
        Filter::Not(inner) => Ok(qd::Filter::must_not([condition(inner)?]).into()),
    }
}

fn conditions(filters: &[Filter]) -> Result<Vec<qd::Condition>> {
    filters.iter().map(condition).collect()
}

fn equals(name: &str, value: &FilterValue) -> qd::Condition {
    match value {
        FilterValue::String(text) => matches(path(name), MatchValue::Keyword(text.clone())),
        FilterValue::Bool(flag) => matches(path(name), MatchValue::Boolean(*flag)),
        FilterValue::Number(number) => range(path(name), exactly(*number)),
    }
}

fn is_one_of(name: &str, values: &[FilterValue]) -> qd::Condition {
    let mut strings = Vec::new();
    let mut choices = Vec::new();
    for value in values {
        match value {
            FilterValue::String(text) => strings.push(text.clone()),
            FilterValue::Number(_) | FilterValue::Bool(_) => choices.push(equals(name, value)),
        }
    }
    if !strings.is_empty() {
        let any = MatchValue::Keywords(qd::RepeatedStrings { strings });
        choices.push(matches(path(name), any));
    }
    qd::Filter::should(choices).into()
}

fn exists(name: &str) -> qd::Condition {
    let at_least_none = qd::ValuesCount {
        gte: Some(0),
        ..Default::default()
    };
    field(qd::FieldCondition {
        key: path(name),
        values_count: Some(at_least_none),
        ..Default::default()
    })
}

fn within(name: &str, bounds: &Range) -> Result<qd::Condition> {
    if !bounds.is_time() {
        return Ok(range(
            path(name),
            qd::Range {
                gte: bounds.gte.map(number).transpose()?,
                gt: bounds.gt.map(number).transpose()?,
                lte: bounds.lte.map(number).transpose()?,
                lt: bounds.lt.map(number).transpose()?,
            },
        ));
    }
    let times = qd::DatetimeRange {
        gte: bounds.gte.map(time).transpose()?,
        gt: bounds.gt.map(time).transpose()?,
        lte: bounds.lte.map(time).transpose()?,
        lt: bounds.lt.map(time).transpose()?,
    };
    Ok(field(qd::FieldCondition {
        key: path(name),
        datetime_range: Some(times),
        ..Default::default()
    }))
}

fn number(bound: Bound) -> Result<f64> {
    match bound {
        Bound::Number(number) => Ok(number),
        Bound::Time(_) => Err(mixed()),
    }
}

fn time(bound: Bound) -> Result<qd::Timestamp> {
    let Bound::Time(time) = bound else {
        return Err(mixed());
    };
    let micros = time.as_micros();
    Ok(qd::Timestamp {
        seconds: micros.div_euclid(MICROS),
        // Below 10^9.
        nanos: (micros.rem_euclid(MICROS) * 1_000) as i32,
    })
}

fn mixed() -> Error {
    Error::invalid_field("filter", "has a range that mixes numbers and times")
}

fn path(name: &str) -> String {
    // Filters are validated, so a name has no dot, quote or bracket that could lead out of the metadata.
    format!("{METADATA}.{name}")
}

fn matches(key: String, value: MatchValue) -> qd::Condition {
    field(qd::FieldCondition {
        key,
        r#match: Some(qd::Match {
            match_value: Some(value),
        }),
        ..Default::default()
    })
}

fn range(key: String, range: qd::Range) -> qd::Condition {
    field(qd::FieldCondition {
        key,
        range: Some(range),
        ..Default::default()
    })
}

fn field(condition: qd::FieldCondition) -> qd::Condition {
    condition.into()
}
