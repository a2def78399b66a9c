//! No call reaches another tenant's points, in either strategy.

use std::sync::Arc;

use super::fixture::{Desk, WIDTH, dense_leg, document_id, fresh_name, full, term_leg};
use crate::model::{Filter, FilterValue, Leg, MetadataValue};
use crate::spi::{FusionMethod, VectorStore};
use crate::tenancy::TenancyStrategy;

const STRATEGIES: [TenancyStrategy; 2] = [TenancyStrategy::Separate, TenancyStrategy::Shared];

/// Tenants and corpora whose names only look alike when they are put together.
async fn crafted(store: &Arc<dyn VectorStore>, strategy: TenancyStrategy) -> Vec<Desk> {
    let base = fresh_name();
    let pairs = [
        ("a_b".to_owned(), base.clone()),
        ("a".to_owned(), format!("b_{base}")),
        ("a".to_owned(), base.clone()),
        ("a".to_owned(), format!("{base}_g1")),
        ("a-b".to_owned(), base.clone()),
        ("t1_a".to_owned(), base),
    ];
    let mut desks = Vec::new();
    for (tenant, corpus) in pairs {
        let desk = Desk::new(store, strategy, &tenant, &corpus);
        desk.create().await;
        let points = (0..3).map(|i| {
            let mut point = desk.point("d", i, 1);
            let owner = MetadataValue::String(tenant.clone());
            point.stored.chunk.metadata = super::fixture::metadata(vec![("tenant", owner)]);
            point
        });
        desk.upsert(points.collect()).await;
        desks.push(desk);
    }
    desks
}

/// Reads, deletes, overwrites and drops stay with their tenant.
pub async fn tenants_do_not_meet(store: Arc<dyn VectorStore>) {
    for strategy in STRATEGIES {
        let desks = crafted(&store, strategy).await;
        for desk in &desks {
            assert_eq!(desk.count().await, 3);
            let own: Vec<_> = (0..3).map(|i| desk.id("d", i)).collect();
            let legs = vec![
                dense_leg(vec![1.0; WIDTH as usize], 100),
                term_leg(Leg::Sparse, &[(1, 1.0)], 100),
            ];
            let query = full(legs, FusionMethod::Rrf { k: 60 });
            let answer = store.query(&desk.at, &query).await.expect("answered");
            assert_eq!(answer.fused.len(), 3);
            let hits = answer.legs.iter().flatten().chain(&answer.fused);
            assert!(hits.into_iter().all(|hit| own.contains(&hit.stored.id)));
            for other in desks.iter().filter(|other| other.at != desk.at) {
                let foreign = [other.id("d", 0)];
                assert_eq!(
                    store.points(&desk.at, &foreign).await.expect("read"),
                    vec![]
                );
                // Another's id under our name: theirs stays as it is.
                let mut stolen = desk.point("d", 0, 99);
                stolen.stored.id = foreign[0];
                if desk.at.collection == other.at.collection {
                    store.upsert(&desk.at, vec![stolen]).await.ok();
                }
                let kept = store.points(&other.at, &foreign).await.expect("read");
                assert_eq!(kept[0].stored.sequence, 1);
            }
            assert_eq!(desk.count().await, 3);
        }
        let deleted = store.delete_below(&desks[0].at, &document_id("d"), 9).await;
        assert_eq!(deleted.expect("deleted"), 3);
        store.drop_generation(&desks[1].at).await.expect("dropped");
        for (index, desk) in desks.iter().enumerate() {
            assert_eq!(desk.count().await, if index < 2 { 0 } else { 3 });
        }
    }
}

/// Filters that would widen a query, if the tenant's condition stood among them, don't.
pub async fn wide_filters_stay_inside(store: Arc<dyn VectorStore>) {
    let not = |filter: Filter| Filter::Not(Box::new(filter));
    let tenant = |name: &str| Filter::Eq("tenant".into(), FilterValue::String(name.into()));
    for strategy in STRATEGIES {
        let desks = crafted(&store, strategy).await;
        let wide = [
            not(Filter::Exists("nothing".into())),
            Filter::Or(vec![tenant("a"), not(tenant("a"))]),
            not(Filter::And(vec![tenant("a"), tenant("b")])),
            not(not(Filter::Or(vec![Filter::Exists("tenant".into())]))),
            Filter::Or(vec![
                Filter::Exists("nothing".into()),
                not(tenant("nobody")),
                Filter::In("tenant".into(), vec![FilterValue::String("a_b".into())]),
            ]),
        ];
        for desk in &desks {
            let mut own: Vec<_> = (0..3).map(|i| desk.id("d", i)).collect();
            own.sort();
            for filter in &wide {
                filter.validate().expect("a valid filter");
                assert_eq!(desk.found(Some(filter.clone())).await, own, "{filter:?}");
            }
            let foreign = not(tenant(desk.at.tenant().as_str()));
            assert!(desk.found(Some(foreign)).await.is_empty());
        }
    }
}
