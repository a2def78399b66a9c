//! A wire filter applied to a stored point, as a server without indexes does it. Must not know requests.

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::value::Kind;
use tonic::Status;

use super::engine::{Stored, key};

/// Whether a filter holds for a point.
pub fn matches(filter: &qd::Filter, id: u128, point: &Stored) -> Result<bool, Status> {
    if filter.min_should.is_some() {
        return Err(unknown());
    }
    for condition in &filter.must {
        if !holds(condition, id, point)? {
            return Ok(false);
        }
    }
    for condition in &filter.must_not {
        if holds(condition, id, point)? {
            return Ok(false);
        }
    }
    for condition in &filter.should {
        if holds(condition, id, point)? {
            return Ok(true);
        }
    }
    Ok(filter.should.is_empty())
}

fn holds(condition: &qd::Condition, id: u128, point: &Stored) -> Result<bool, Status> {
    match condition.condition_one_of.as_ref().ok_or_else(unknown)? {
        ConditionOneOf::Field(field) => of_field(field, point),
        ConditionOneOf::Filter(filter) => matches(filter, id, point),
        ConditionOneOf::HasId(ids) => {
            let keys = ids.has_id.iter().map(|id| key(Some(id)));
            Ok(keys.collect::<Result<Vec<_>, _>>()?.contains(&id))
        }
        ConditionOneOf::HasVector(name) => Ok(point.vectors.contains_key(&name.has_vector)),
        _ => Err(unknown()),
    }
}

fn of_field(field: &qd::FieldCondition, point: &Stored) -> Result<bool, Status> {
    let Some(value) = at_path(&field.key, point) else {
        return Ok(false);
    };
    let items: Vec<&Kind> = match value {
        Kind::ListValue(list) => list.values.iter().filter_map(|v| v.kind.as_ref()).collect(),
        single => vec![single],
    };
    if let Some(wanted) = &field.r#match {
        let wanted = wanted.match_value.as_ref().ok_or_else(unknown)?;
        return any(&items, |item| equals(item, wanted));
    }
    if let Some(range) = &field.range {
        return any(&items, |item| {
            Ok(number(item).is_some_and(|n| within(n, range)))
        });
    }
    if let Some(range) = &field.datetime_range {
        return any(&items, |item| {
            Ok(time(item).is_some_and(|t| between(t, range)))
        });
    }
    let Some(count) = &field.values_count else {
        return Err(unknown());
    };
    let items = items.len() as u64;
    Ok(count.gte.is_none_or(|bound| items >= bound)
        && count.gt.is_none_or(|bound| items > bound)
        && count.lte.is_none_or(|bound| items <= bound)
        && count.lt.is_none_or(|bound| items < bound))
}

fn any(items: &[&Kind], test: impl Fn(&Kind) -> Result<bool, Status>) -> Result<bool, Status> {
    let tested = items.iter().map(|item| test(item));
    Ok(tested.collect::<Result<Vec<_>, _>>()?.contains(&true))
}

fn at_path<'a>(path: &str, point: &'a Stored) -> Option<&'a Kind> {
    let mut parts = path.split('.');
    let mut kind = point.payload.get(parts.next()?)?.kind.as_ref()?;
    for part in parts {
        let Kind::StructValue(map) = kind else {
            return None;
        };
        kind = map.fields.get(part)?.kind.as_ref()?;
    }
    Some(kind)
}

fn equals(item: &Kind, wanted: &MatchValue) -> Result<bool, Status> {
    Ok(match (item, wanted) {
        (Kind::StringValue(text), MatchValue::Keyword(wanted)) => text == wanted,
        (Kind::StringValue(text), MatchValue::Keywords(wanted)) => wanted.strings.contains(text),
        (Kind::BoolValue(flag), MatchValue::Boolean(wanted)) => flag == wanted,
        // Whole doubles are no integers to the server.
        (Kind::IntegerValue(number), MatchValue::Integer(wanted)) => number == wanted,
        (
            _,
            MatchValue::Keyword(_)
            | MatchValue::Keywords(_)
            | MatchValue::Boolean(_)
            | MatchValue::Integer(_),
        ) => false,
        _ => return Err(unknown()),
    })
}

fn number(item: &Kind) -> Option<f64> {
    match item {
        Kind::DoubleValue(number) => Some(*number),
        Kind::IntegerValue(number) => Some(*number as f64),
        _ => None,
    }
}

fn within(number: f64, range: &qd::Range) -> bool {
    range.gte.is_none_or(|bound| number >= bound)
        && range.gt.is_none_or(|bound| number > bound)
        && range.lte.is_none_or(|bound| number <= bound)
        && range.lt.is_none_or(|bound| number < bound)
}

fn time(item: &Kind) -> Option<(i64, i32)> {
    let Kind::StringValue(text) = item else {
        return None;
    };
    let time: jiff::Timestamp = text.parse().ok()?;
    let nanos = time.as_nanosecond();
    let billion = 1_000_000_000;
    Some((
        nanos.div_euclid(billion) as i64,
        nanos.rem_euclid(billion) as i32,
    ))
}

fn between(time: (i64, i32), range: &qd::DatetimeRange) -> bool {
    let at = |bound: &qd::Timestamp| (bound.seconds, bound.nanos);
    range.gte.as_ref().is_none_or(|bound| time >= at(bound))
        && range.gt.as_ref().is_none_or(|bound| time > at(bound))
        && range.lte.as_ref().is_none_or(|bound| time <= at(bound))
        && range.lt.as_ref().is_none_or(|bound| time < at(bound))
}

fn unknown() -> Status {
    Status::unimplemented("the test server doesn't know this condition")
}
