//! Filters to the engine's conditions.
//!
//! Callers reach metadata only: every field is a path below the metadata key. The engine's equality tells 2020 from
//! 2020.0, so numbers compile to closed ranges. Its "empty" counts an empty list as absent, which callers do not
//! expect of `exists`: a key is there when it counts at least 0 values. Its time ranges also read stored texts that
//! are almost RFC 3339 (a date alone, no zone = UTC). Must not know queries.

use qdrant_edge as qe;
use qdrant_edge::external::ordered_float::OrderedFloat;

use super::engine::json_path;
use crate::adapters::payload_names::{DOCUMENT, METADATA, SEQUENCE, TENANT};
use crate::error::{Error, Result};
use crate::model::{Bound, DocumentId, Filter, FilterValue, Range, TenantId};

/// What restricts every call to its tenant, with the caller's filter beside it.
pub(super) fn scoped(tenant: &TenantId, filter: Option<&Filter>) -> Result<qe::Filter> {
    let mut must = vec![tenant_is(tenant)?];
    if let Some(filter) = filter {
        must.push(condition(filter)?);
    }
    Ok(all(must))
}

/// The points of a document whose sequence lies in a range.
pub(super) fn of_document(
    tenant: &TenantId,
    document: &DocumentId,
    sequence: qe::Range<OrderedFloat<f64>>,
) -> Result<qe::Filter> {
    let document = qe::Match::from(document.as_str().to_owned());
    Ok(all(vec![
        tenant_is(tenant)?,
        field(qe::FieldCondition::new_match(
            json_path(DOCUMENT)?,
            document,
        )),
        field(qe::FieldCondition::new_range(
            json_path(SEQUENCE)?,
            sequence,
        )),
    ]))
}

fn tenant_is(tenant: &TenantId) -> Result<qe::Condition> {
    let tenant = qe::Match::from(tenant.as_str().to_owned());
    Ok(field(qe::FieldCondition::new_match(
        json_path(TENANT)?,
        tenant,
    )))
}

fn condition(filter: &Filter) -> Result<qe::Condition> {
    match filter {
        Filter::Eq(name, value) => equals(name, value),
        Filter::In(name, values) => is_one_of(name, values),
        Filter::Range(name, range) => within(name, range),
        Filter::Exists(name) => {
            let count = qe::ValuesCount {
                gte: Some(0),
                gt: None,
                lt: None,
                lte: None,
            };
            Ok(field(qe::FieldCondition::new_values_count(
                path(name)?,
                count,
            )))
        }
        Filter::And(filters) => Ok(nested(all(conditions(filters)?))),
        Filter::Or(filters) => Ok(nested(any(conditions(filters)?))),
        Filter::Not(inner) => Ok(nested(qe::Filter::new_must_not(condition(inner)?))),
    }
}

fn conditions(filters: &[Filter]) -> Result<Vec<qe::Condition>> {
    filters.iter().map(condition).collect()
}

fn equals(name: &str, value: &FilterValue) -> Result<qe::Condition> {
    let name = path(name)?;
    Ok(field(match value {
        FilterValue::String(text) => qe::FieldCondition::new_match(name, text.clone().into()),
        FilterValue::Bool(flag) => qe::FieldCondition::new_match(name, (*flag).into()),
        FilterValue::Number(number) => {
            let bound = Some(OrderedFloat(*number));
            let range = qe::Range {
                gte: bound,
                lte: bound,
                ..Default::default()
            };
            qe::FieldCondition::new_range(name, range)
        }
    }))
}

fn is_one_of(name: &str, values: &[FilterValue]) -> Result<qe::Condition> {
    let mut texts = Vec::new();
    let mut choices = Vec::new();
    for value in values {
        match value {
            FilterValue::String(text) => texts.push(text.clone()),
            FilterValue::Number(_) | FilterValue::Bool(_) => choices.push(equals(name, value)?),
        }
    }
    if !texts.is_empty() {
        choices.push(field(qe::FieldCondition::new_match(
            path(name)?,
            texts.into(),
        )));
    }
    Ok(nested(any(choices)))
}

fn within(name: &str, range: &Range) -> Result<qe::Condition> {
    let name = path(name)?;
    if range.is_time() {
        let range = qe::Range {
            gte: range.gte.map(time).transpose()?,
            gt: range.gt.map(time).transpose()?,
            lte: range.lte.map(time).transpose()?,
            lt: range.lt.map(time).transpose()?,
        };
        return Ok(field(qe::FieldCondition::new_datetime_range(name, range)));
    }
    let range = qe::Range {
        gte: range.gte.map(number).transpose()?,
        gt: range.gt.map(number).transpose()?,
        lte: range.lte.map(number).transpose()?,
        lt: range.lt.map(number).transpose()?,
    };
    Ok(field(qe::FieldCondition::new_range(name, range)))
}

fn number(bound: Bound) -> Result<OrderedFloat<f64>> {
    match bound {
        Bound::Number(number) => Ok(OrderedFloat(number)),
        Bound::Time(_) => Err(mixed()),
    }
}

fn time(bound: Bound) -> Result<qe::DateTimeWrapper> {
    let Bound::Time(time) = bound else {
        return Err(mixed());
    };
    let out_of_range = || Error::invalid_field("filter", "has a time out of range");
    let text = jiff::Timestamp::from_microsecond(time.as_micros()).map_err(|_| out_of_range())?;
    text.to_string().parse().map_err(|_| out_of_range())
}

fn mixed() -> Error {
    Error::invalid_field("filter", "has a range that mixes numbers and times")
}

fn path(name: &str) -> Result<qe::JsonPath> {
    // Filters are validated, so a name has no dot, quote or bracket that could lead out of the metadata.
    json_path(&format!("{METADATA}.{name}"))
}

fn all(must: Vec<qe::Condition>) -> qe::Filter {
    qe::Filter {
        must: Some(must),
        should: None,
        min_should: None,
        must_not: None,
    }
}

fn any(should: Vec<qe::Condition>) -> qe::Filter {
    qe::Filter {
        should: Some(should),
        must: None,
        min_should: None,
        must_not: None,
    }
}

fn field(condition: qe::FieldCondition) -> qe::Condition {
    qe::Condition::Field(condition)
}

fn nested(filter: qe::Filter) -> qe::Condition {
    qe::Condition::Filter(filter)
}
