//! Filters mean what `filter_eval` says.

use std::sync::Arc;

use super::fixture::{Desk, SplitMix, desks, metadata};
use crate::model::{
    Bound, ChunkId, Filter, FilterValue, Metadata, MetadataValue, Range, Timestamp,
};
use crate::spi::{Point, VectorStore};
use crate::testing::filter_eval::matches;

const POINTS: u32 = 60;
const ROUNDS: usize = 150;
const FIELDS: [&str; 5] = ["a", "b", "c-d", "e_f", "tenant"];
const TEXTS: [&str; 6] = [
    "",
    "x",
    "X",
    "xy",
    "2024-01-01T00:00:00Z",
    "2024-06-01T12:00:00.5+02:00",
];
const NUMBERS: [f64; 6] = [0.0, -1.5, 2020.0, 0.1, 1e15, 2021.0];

/// Random filters find exactly the points for which they hold.
pub async fn random_filters_agree_with_filter_eval(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let mut random = SplitMix(42);
        let points: Vec<Point> = (0..POINTS)
            .map(|ordinal| {
                let mut point = desk.point("d", ordinal, 1);
                point.stored.chunk.metadata = some_metadata(&mut random);
                point
            })
            .collect();
        desk.upsert(points.clone()).await;
        let mut hit = 0;
        for _ in 0..ROUNDS {
            let filter = some_filter(&mut random, 3);
            filter.validate().expect("a valid filter");
            let expected = expected(&points, &filter);
            hit += usize::from(!expected.is_empty() && expected.len() < points.len());
            assert_eq!(
                desk.found(Some(filter.clone())).await,
                expected,
                "{filter:?}"
            );
        }
        assert!(hit > ROUNDS / 4, "the filters tell points apart");
    }
}

/// Numbers by value, texts whole, times across zones.
pub async fn times_and_numbers(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let text = |text: &str| MetadataValue::String(text.into());
        let points = with_metadata(
            &desk,
            vec![
                metadata(vec![
                    ("n", MetadataValue::Number(2020.0)),
                    ("t", text("2024-01-01T00:00:00Z")),
                ]),
                metadata(vec![
                    ("n", MetadataValue::Numbers(vec![1.0, 9.0])),
                    ("t", text("2024-01-01T01:30:00+02:00")),
                ]),
                metadata(vec![("n", text("2020")), ("t", text("tomorrow"))]),
            ],
        );
        desk.upsert(points.clone()).await;
        let range = |field: &str, gte, lt| {
            Filter::Range(
                field.into(),
                Range {
                    gte,
                    lt,
                    ..Range::default()
                },
            )
        };
        let n = |x| Some(Bound::Number(x));
        let new_year = Some(Bound::Time(Timestamp::from_micros(1_704_067_200_000_000)));
        let filters = [
            Filter::Eq("n".into(), FilterValue::Number(2020.0)),
            Filter::Eq("n".into(), FilterValue::String("2020".into())),
            Filter::Eq("n".into(), FilterValue::String("20".into())),
            range("n", n(2.0), n(8.0)),
            range("n", n(9.0), None),
            range("t", new_year, None),
            range("t", None, new_year),
            Filter::In(
                "n".into(),
                vec![FilterValue::Number(1.0), FilterValue::String("2020".into())],
            ),
        ];
        let counts = [1, 1, 0, 0, 2, 1, 1, 2];
        for (filter, count) in filters.into_iter().zip(counts) {
            let found = desk.found(Some(filter.clone())).await;
            assert_eq!(found, expected(&points, &filter), "{filter:?}");
            assert_eq!(found.len(), count, "{filter:?}");
        }
    }
}

/// `exists` means that the key is there, whatever its value.
pub async fn exists_and_metadata_types(store: Arc<dyn VectorStore>) {
    for desk in desks(&store).await {
        let values = [
            MetadataValue::String(String::new()),
            MetadataValue::Number(0.0),
            MetadataValue::Bool(false),
            MetadataValue::Strings(vec![]),
            MetadataValue::Numbers(vec![0.5]),
        ];
        let mut all: Vec<Metadata> = values
            .into_iter()
            .map(|v| metadata(vec![("k", v)]))
            .collect();
        all.push(Metadata::default());
        let points = with_metadata(&desk, all);
        desk.upsert(points.clone()).await;
        let exists = Filter::Exists("k".into());
        assert_eq!(desk.found(Some(exists.clone())).await.len(), 5);
        let not = Filter::Not(Box::new(exists));
        assert_eq!(desk.found(Some(not)).await, vec![points[5].stored.id]);
        let flag = Filter::Eq("k".into(), FilterValue::Bool(false));
        assert_eq!(desk.found(Some(flag)).await, vec![points[2].stored.id]);
        let content = Filter::Exists("content".into());
        assert!(
            desk.found(Some(content)).await.is_empty(),
            "system fields are out of reach"
        );
    }
}

fn with_metadata(desk: &Desk, all: Vec<Metadata>) -> Vec<Point> {
    let point = |(ordinal, metadata)| {
        let mut point = desk.point("d", ordinal, 1);
        point.stored.chunk.metadata = metadata;
        point
    };
    (0..).zip(all).map(point).collect()
}

fn expected(points: &[Point], filter: &Filter) -> Vec<ChunkId> {
    let holds = |point: &&Point| matches(filter, &point.stored.chunk.metadata);
    let mut ids: Vec<_> = points
        .iter()
        .filter(holds)
        .map(|point| point.stored.id)
        .collect();
    ids.sort();
    ids
}

fn some_metadata(random: &mut SplitMix) -> Metadata {
    let mut entries = Vec::new();
    for field in FIELDS {
        let value = match random.below(7) {
            0 | 1 => MetadataValue::String(pick(random, &TEXTS).into()),
            2 => MetadataValue::Number(pick(random, &NUMBERS)),
            3 => MetadataValue::Bool(random.below(2) == 0),
            4 => {
                let count = random.below(3);
                MetadataValue::Strings((0..count).map(|_| pick(random, &TEXTS).into()).collect())
            }
            5 => MetadataValue::Numbers((0..2).map(|_| pick(random, &NUMBERS)).collect()),
            _ => continue,
        };
        entries.push((field, value));
    }
    metadata(entries)
}

fn some_filter(random: &mut SplitMix, depth: u32) -> Filter {
    let field = pick(random, &FIELDS).to_owned();
    let kinds = if depth == 0 { 4 } else { 7 };
    match random.below(kinds) {
        0 => Filter::Eq(field, some_value(random)),
        1 => Filter::In(
            field,
            (0..=random.below(3)).map(|_| some_value(random)).collect(),
        ),
        2 => Filter::Range(field, some_range(random)),
        3 => Filter::Exists(field),
        4 => Filter::And(some_filters(random, depth)),
        5 => Filter::Or(some_filters(random, depth)),
        _ => Filter::Not(Box::new(some_filter(random, depth - 1))),
    }
}

fn some_filters(random: &mut SplitMix, depth: u32) -> Vec<Filter> {
    (0..=random.below(2))
        .map(|_| some_filter(random, depth - 1))
        .collect()
}

fn some_value(random: &mut SplitMix) -> FilterValue {
    match random.below(3) {
        0 => FilterValue::String(pick(random, &TEXTS).into()),
        1 => FilterValue::Number(pick(random, &NUMBERS)),
        _ => FilterValue::Bool(random.below(2) == 0),
    }
}

fn some_range(random: &mut SplitMix) -> Range {
    let times = random.below(2) == 0;
    let bound = |random: &mut SplitMix| {
        if times {
            let day = 86_400_000_000 * random.below(300) as i64;
            Bound::Time(Timestamp::from_micros(1_704_067_200_000_000 + day))
        } else {
            Bound::Number(pick(random, &NUMBERS))
        }
    };
    let mut range = Range::default();
    match random.below(4) {
        0 => range.gte = Some(bound(random)),
        1 => range.lt = Some(bound(random)),
        2 => (range.gt, range.lte) = (Some(bound(random)), Some(bound(random))),
        _ => (range.gte, range.lte) = (Some(bound(random)), Some(bound(random))),
    }
    range
}

fn pick<T: Copy>(random: &mut SplitMix, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}
