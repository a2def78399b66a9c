//! The wire's filter to the model's.

use pbjson_types::{Value, value::Kind};

use super::timestamp::parse_rfc3339;
use super::v1;
use crate::error::{Error, Result};
use crate::model::{Bound, Filter, FilterValue, Range, Timestamp};

const FIELD: &str = "filter";

/// Decodes and validates a filter.
///
/// # Errors
/// `InvalidField` on `filter`; an empty filter is never "match all".
pub(super) fn filter_of(filter: v1::Filter) -> Result<Filter> {
    let filter = tree(filter)?;
    filter.validate()?;
    Ok(filter)
}

fn tree(filter: v1::Filter) -> Result<Filter> {
    use v1::filter::Condition;
    let Some(condition) = filter.condition else {
        return invalid("has a node without a condition");
    };
    match condition {
        Condition::Eq(eq) => Ok(Filter::Eq(eq.field, scalar(eq.value)?)),
        Condition::In(list) => {
            let values = list.values.into_iter().map(|v| scalar(Some(v)));
            Ok(Filter::In(list.field, values.collect::<Result<_>>()?))
        }
        Condition::Range(range) => range_of(range),
        Condition::Exists(exists) => Ok(Filter::Exists(exists.field)),
        Condition::And(all) => Ok(Filter::And(trees(all)?)),
        Condition::Or(any) => Ok(Filter::Or(trees(any)?)),
        Condition::Not(inner) => Ok(Filter::Not(Box::new(tree(*inner)?))),
    }
}

fn trees(filters: v1::Filters) -> Result<Vec<Filter>> {
    filters.filters.into_iter().map(tree).collect()
}

fn range_of(range: v1::Range) -> Result<Filter> {
    let bounds = Range {
        gte: bound(range.gte)?,
        gt: bound(range.gt)?,
        lte: bound(range.lte)?,
        lt: bound(range.lt)?,
    };
    Ok(Filter::Range(range.field, bounds))
}

fn scalar(value: Option<Value>) -> Result<FilterValue> {
    match value.and_then(|v| v.kind) {
        Some(Kind::StringValue(text)) => Ok(FilterValue::String(text)),
        Some(Kind::NumberValue(number)) => Ok(FilterValue::Number(number)),
        Some(Kind::BoolValue(truth)) => Ok(FilterValue::Bool(truth)),
        Some(Kind::NullValue(_) | Kind::ListValue(_) | Kind::StructValue(_)) | None => {
            invalid("compares with something that is no string, number or bool")
        }
    }
}

fn bound(value: Option<Value>) -> Result<Option<Bound>> {
    let Some(kind) = value.and_then(|v| v.kind) else {
        return Ok(None);
    };
    match kind {
        Kind::NumberValue(number) => Ok(Some(Bound::Number(number))),
        Kind::StringValue(text) => match parse_rfc3339(&text) {
            Some(moment) => Ok(Some(Bound::Time(Timestamp::from_micros(
                moment.as_microsecond(),
            )))),
            None => invalid("has a range bound that is no RFC 3339 time"),
        },
        Kind::NullValue(_) => Ok(None),
        Kind::BoolValue(_) | Kind::ListValue(_) | Kind::StructValue(_) => {
            invalid("has a range bound that is no number or time")
        }
    }
}

fn invalid<T>(problem: &str) -> Result<T> {
    Err(Error::invalid_field(FIELD, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(json: &str) -> Result<Filter> {
        filter_of(serde_json::from_str(json).expect("json"))
    }

    #[test]
    fn every_condition_is_read() {
        let filter = decoded(
            r#"{"and":{"filters":[
                {"eq":{"field":"a","value":"x"}},
                {"in":{"field":"b","values":[1,"y",true]}},
                {"range":{"field":"c","gte":1,"lt":2}},
                {"range":{"field":"d","gt":"2024-01-01T00:00:00Z"}},
                {"or":{"filters":[{"exists":{"field":"e"}}]}},
                {"not":{"exists":{"field":"f"}}}]}}"#,
        );
        let Filter::And(parts) = filter.expect("valid") else {
            panic!("not an and");
        };
        assert_eq!(parts.len(), 6);
    }

    #[test]
    fn nothing_means_match_all() {
        for bad in [
            "{}",
            r#"{"and":{}}"#,
            r#"{"not":{}}"#,
            r#"{"eq":{"field":"a"}}"#,
            r#"{"eq":{"field":"a","value":null}}"#,
            r#"{"in":{"field":"a"}}"#,
            r#"{"range":{"field":"a"}}"#,
            r#"{"range":{"field":"a","gte":"soon"}}"#,
            r#"{"exists":{"field":"tenant.x"}}"#,
        ] {
            assert_eq!(decoded(bad).expect_err(bad).field(), Some("filter"));
        }
    }
}
