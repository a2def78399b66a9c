//! Which generations live for a tenant: one point per (tenant, corpus, generation) in one small collection.
//!
//! A mark carries the schema too, so that one read tells all that retrieval asks. Must not know corpora's collections.

use std::collections::HashMap;

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::payload_index_params::IndexParams;
use qdrant_client::qdrant::value::Kind;
use uuid::Uuid;

use super::call::{Caller, Failed, absent, applied};
use super::collection::{create, create_index, name_index, readable, tenant_index};
use super::filter::{keyword, of_tenant};
use super::payload::{integer, text};
use super::read::scroll;
use super::schema::{self, Map};
use crate::adapters::payload_names::TENANT;
use crate::error::{Error, Result};
use crate::model::{CollectionSchema, CorpusRef};
use crate::tenancy::Placement;

const NAME: &str = "ragbus_meta";
const CORPUS: &str = "corpus";
const GENERATION: &str = "generation";
const COLLECTION: &str = "collection";
const LIVE: &str = "live";
const BUILDING: &str = "building";

/// What is known of a generation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) generation: u32,
    /// The collection's name, without a prefix.
    pub(super) collection: String,
    /// What it was built with; `None` = it was dropped.
    pub(super) live: Option<CollectionSchema>,
    /// It lives, but is not served yet.
    pub(super) building: bool,
}

/// The marks of one installation.
#[derive(Clone)]
pub(super) struct Marks {
    caller: Caller,
    collection: String,
    replication_factor: Option<u32>,
}

impl Marks {
    pub(super) fn new(caller: Caller, prefix: &str, replication_factor: Option<u32>) -> Self {
        Self {
            caller,
            collection: format!("{prefix}{NAME}"),
            replication_factor,
        }
    }

    /// Every mark of a corpus; none before the first was set.
    pub(super) async fn of(&self, corpus: &CorpusRef) -> Result<Vec<Mark>> {
        let mut filter = of_tenant(&corpus.tenant);
        filter.must.push(keyword(CORPUS, corpus.corpus.as_str()));
        let found = scroll(&self.caller, &self.collection, &filter).await;
        let records = absent(found)?.unwrap_or_default();
        records
            .iter()
            .map(|record| decode(&record.payload))
            .collect()
    }

    /// What a placement was built with, when it lives for its tenant.
    pub(super) async fn live(&self, at: &Placement) -> Result<Option<CollectionSchema>> {
        let found = self.caller.call("get", |client, seconds| {
            let request = qd::GetPoints {
                collection_name: self.collection.clone(),
                ids: vec![id(at)],
                with_payload: Some(true.into()),
                with_vectors: Some(false.into()),
                timeout: Some(seconds),
                ..Default::default()
            };
            async move { Ok(client.get_points(request).await?) }
        });
        let Some(record) = absent(found.await)?.and_then(|found| found.result.into_iter().next())
        else {
            return Ok(None);
        };
        let mark = decode(&record.payload)?;
        let own = mark.collection == at.collection;
        Ok(mark.live.filter(|_| own))
    }

    /// Marks a placement as live, unless its generation was dropped. Whether it was shows only when it is read back.
    pub(super) async fn add(&self, at: &Placement, schema: &CollectionSchema) -> Result<()> {
        let mut payload = encode(at, true);
        payload.extend(schema::encode(schema));
        let alive = qd::Filter::must([qd::Condition::matches(LIVE, true)]);
        self.put(at, payload, Some(alive)).await
    }

    /// The same for one that is not served yet. A mark that is there stays as it is.
    pub(super) async fn add_building(
        &self,
        at: &Placement,
        schema: &CollectionSchema,
    ) -> Result<()> {
        let mut payload = encode(at, true);
        payload.insert(BUILDING.to_owned(), true.into());
        payload.extend(schema::encode(schema));
        let built = qd::Filter::must([qd::Condition::matches(BUILDING, true)]);
        self.put(at, payload, Some(built)).await
    }

    /// Marks a placement as dropped, whatever it was.
    pub(super) async fn bury(&self, at: &Placement) -> Result<()> {
        self.put(at, encode(at, false), None).await
    }

    async fn put(&self, at: &Placement, payload: Map, condition: Option<qd::Filter>) -> Result<()> {
        let point = qd::PointStruct {
            id: Some(id(at)),
            payload,
            // A point needs a vector; nobody searches for this one.
            vectors: Some(qd::Vector::new_dense(vec![1.0]).into()),
        };
        let request = qd::UpsertPoints {
            collection_name: self.collection.clone(),
            wait: Some(true),
            points: vec![point],
            // Through one leader: `add` and `bury` must not meet in two orders on two copies.
            ordering: Some(qd::WriteOrdering {
                r#type: qd::WriteOrderingType::Strong.into(),
            }),
            update_filter: condition,
            ..Default::default()
        };
        if absent(self.upsert(&request).await)?.is_none() {
            self.create().await?;
            self.upsert(&request).await?;
        }
        Ok(())
    }

    async fn upsert(&self, request: &qd::UpsertPoints) -> Result<(), Failed> {
        let upsert = self.caller.call("upsert", |client, seconds| {
            let mut request = request.clone();
            request.timeout = Some(seconds);
            async move { applied(client.upsert_points(request).await?) }
        });
        upsert.await
    }

    async fn create(&self) -> Result<()> {
        let params = qd::VectorParams {
            size: 1,
            distance: qd::Distance::Dot.into(),
            ..Default::default()
        };
        let request = qd::CreateCollection {
            collection_name: self.collection.clone(),
            replication_factor: self.replication_factor,
            vectors_config: Some(qd::VectorsConfig {
                config: Some(qd::vectors_config::Config::Params(params)),
            }),
            ..Default::default()
        };
        create(&self.caller, request).await?;
        readable(&self.caller, &self.collection).await?;
        let live = IndexParams::BoolIndexParams(qd::BoolIndexParams::default());
        let live = (LIVE, qd::FieldType::Bool, live);
        for index in [tenant_index(), name_index(CORPUS), live] {
            create_index(&self.caller, &self.collection, index).await?;
        }
        Ok(())
    }
}

/// Derived from the three, lengths first: no two can meet.
fn id(at: &Placement) -> qd::PointId {
    let (tenant, corpus) = (at.tenant().as_str(), at.corpus.corpus.as_str());
    let name = format!(
        "ragbus mark {}:{tenant}/{}:{corpus}/{}",
        tenant.len(),
        corpus.len(),
        at.generation
    );
    let uuid = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes());
    uuid.to_string().into()
}

fn encode(at: &Placement, live: bool) -> Map {
    let entries: [(&str, qd::Value); 5] = [
        (TENANT, at.tenant().as_str().into()),
        (CORPUS, at.corpus.corpus.as_str().into()),
        (GENERATION, i64::from(at.generation).into()),
        (COLLECTION, at.collection.as_str().into()),
        (LIVE, live.into()),
    ];
    let named = |(key, value): (&str, qd::Value)| (key.to_owned(), value);
    entries.into_iter().map(named).collect::<HashMap<_, _>>()
}

fn decode(payload: &Map) -> Result<Mark> {
    let damaged = || Error::internal("a mark in the vector store is damaged");
    let generation = integer(payload.get(GENERATION)).and_then(|number| number.try_into().ok());
    let live = match payload.get(LIVE).and_then(|value| value.kind.as_ref()) {
        Some(Kind::BoolValue(true)) => Some(schema::decode(payload).ok_or_else(damaged)?),
        Some(Kind::BoolValue(false)) => None,
        Some(_) | None => return Err(damaged()),
    };
    Ok(Mark {
        generation: generation.ok_or_else(damaged)?,
        collection: text(payload.get(COLLECTION))
            .ok_or_else(damaged)?
            .to_owned(),
        live,
        building: matches!(
            payload.get(BUILDING).and_then(|value| value.kind.as_ref()),
            Some(Kind::BoolValue(true))
        ),
    })
}
