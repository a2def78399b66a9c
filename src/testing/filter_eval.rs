//! A filter applied to metadata: the meaning that every store is compared with. Must not know a store.

use crate::model::{Bound, Filter, FilterValue, Metadata, MetadataValue, Range, Timestamp};

/// Whether the filter holds. An absent field fails every test but `not`; on a list any element may match.
pub fn matches(filter: &Filter, metadata: &Metadata) -> bool {
    match filter {
        Filter::Eq(field, wanted) => any(metadata.get(field), |value| value == *wanted),
        Filter::In(field, wanted) => any(metadata.get(field), |value| wanted.contains(&value)),
        Filter::Range(field, range) => any(metadata.get(field), |value| within(&value, range)),
        Filter::Exists(field) => metadata.get(field).is_some(),
        Filter::And(filters) => filters.iter().all(|filter| matches(filter, metadata)),
        Filter::Or(filters) => filters.iter().any(|filter| matches(filter, metadata)),
        Filter::Not(inner) => !matches(inner, metadata),
    }
}

fn any(value: Option<&MetadataValue>, test: impl Fn(FilterValue) -> bool) -> bool {
    match value {
        None => false,
        Some(MetadataValue::String(text)) => test(FilterValue::String(text.clone())),
        Some(MetadataValue::Number(number)) => test(FilterValue::Number(*number)),
        Some(MetadataValue::Bool(flag)) => test(FilterValue::Bool(*flag)),
        Some(MetadataValue::Strings(list)) => list
            .iter()
            .any(|text| test(FilterValue::String(text.clone()))),
        Some(MetadataValue::Numbers(list)) => {
            list.iter().any(|number| test(FilterValue::Number(*number)))
        }
    }
}

fn within(value: &FilterValue, range: &Range) -> bool {
    match value {
        FilterValue::Number(number) if !range.is_time() => bounded(Bound::Number(*number), range),
        FilterValue::String(text) if range.is_time() => match text.parse::<jiff::Timestamp>() {
            Ok(time) => bounded(
                Bound::Time(Timestamp::from_micros(time.as_microsecond())),
                range,
            ),
            Err(_) => false,
        },
        FilterValue::String(_) | FilterValue::Number(_) | FilterValue::Bool(_) => false,
    }
}

fn bounded(value: Bound, range: &Range) -> bool {
    range.gte.is_none_or(|bound| value >= bound)
        && range.gt.is_none_or(|bound| value > bound)
        && range.lte.is_none_or(|bound| value <= bound)
        && range.lt.is_none_or(|bound| value < bound)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn metadata(key: &str, value: MetadataValue) -> Metadata {
        Metadata::new("metadata", BTreeMap::from([(key.to_owned(), value)])).expect("valid")
    }

    #[test]
    fn lists_match_by_any_element_and_a_range_needs_one_element_inside() {
        let list = metadata("n", MetadataValue::Numbers(vec![1.0, 9.0]));
        let number = |n| Some(Bound::Number(n));
        let range = |gt, lt| {
            Filter::Range(
                "n".into(),
                Range {
                    gt,
                    lt,
                    ..Range::default()
                },
            )
        };
        assert!(matches(
            &Filter::Eq("n".into(), FilterValue::Number(9.0)),
            &list
        ));
        assert!(!matches(&range(number(2.0), number(8.0)), &list));
        assert!(matches(&range(number(2.0), None), &list));
    }

    #[test]
    fn times_compare_across_zones_and_absent_fields_fail() {
        let stored = metadata(
            "t",
            MetadataValue::String("2024-01-01T01:00:00+02:00".into()),
        );
        let at = |micros| Some(Bound::Time(Timestamp::from_micros(micros)));
        let until = |lt| {
            Filter::Range(
                "t".into(),
                Range {
                    lt,
                    ..Range::default()
                },
            )
        };
        assert!(matches(&until(at(1_704_067_200_000_000)), &stored));
        assert!(!matches(&until(at(0)), &stored));
        assert!(matches(
            &Filter::Not(Box::new(Filter::Exists("u".into()))),
            &stored
        ));
        let empty = metadata("e", MetadataValue::Strings(vec![]));
        assert!(matches(&Filter::Exists("e".into()), &empty));
    }
}
