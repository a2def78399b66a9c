//! Collections, their points and their logs. Must not know gRPC methods.

use std::collections::{BTreeMap, HashMap};

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::vector::Vector;
use qdrant_client::qdrant::vectors::VectorsOptions;
use qdrant_client::qdrant::vectors_config::Config;
use tonic::Status;
use uuid::Uuid;

use super::faults::Effect;
use super::filter::matches;

/// The name of a point's only vector where vectors have no names.
pub const UNNAMED: &str = "";

/// Everything the server holds, and what it was asked.
#[derive(Default)]
pub struct Engine {
    pub collections: BTreeMap<String, Collection>,
    /// Every query, also those inside batches.
    pub queries: Vec<qd::QueryPoints>,
    /// How many points each upsert had.
    pub upserts: Vec<usize>,
}

/// A collection.
#[derive(Default)]
pub struct Collection {
    pub created: qd::CreateCollection,
    pub indexes: Vec<String>,
    pub points: BTreeMap<u128, Stored>,
    pub log: Vec<Write>,
}

/// A stored point.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    pub payload: HashMap<String, qd::Value>,
    pub vectors: HashMap<String, Vector>,
}

/// A logged write.
#[derive(Debug, Clone)]
pub enum Write {
    Upsert(qd::UpsertPoints),
    Delete(Option<qd::PointsSelector>),
    Strip(Option<qd::PointsSelector>, Vec<String>),
}

impl Engine {
    /// A collection that must exist.
    pub fn get(&mut self, name: &str) -> Result<&mut Collection, Status> {
        let missing = || Status::not_found(format!("Collection `{name}` doesn't exist!"));
        self.collections.get_mut(name).ok_or_else(missing)
    }

    /// Logs a write and applies as much of the log as the effect says.
    pub fn write(
        &mut self,
        name: &str,
        write: Write,
        effect: Effect,
    ) -> Result<qd::PointsOperationResponse, Status> {
        let collection = self.get(name)?;
        collection.check(&write)?;
        if effect == Effect::Later {
            collection.log.push(write);
            return Ok(response(qd::UpdateStatus::WaitTimeout));
        }
        for earlier in std::mem::take(&mut collection.log) {
            collection.apply(earlier)?;
        }
        match effect {
            Effect::Whole | Effect::Later => collection.apply(write)?,
            Effect::Unanswered => {
                collection.apply(write)?;
                return Err(Status::deadline_exceeded("Timeout"));
            }
            Effect::Half => {
                collection.apply(half(write))?;
                return Err(Status::deadline_exceeded("Timeout"));
            }
        }
        Ok(response(qd::UpdateStatus::Completed))
    }
}

/// The answer to a write.
pub fn response(status: qd::UpdateStatus) -> qd::PointsOperationResponse {
    qd::PointsOperationResponse {
        result: Some(qd::UpdateResult {
            operation_id: Some(1),
            status: status.into(),
        }),
        ..Default::default()
    }
}

fn half(write: Write) -> Write {
    match write {
        Write::Upsert(mut upsert) => {
            upsert.points.truncate(upsert.points.len() / 2);
            Write::Upsert(upsert)
        }
        Write::Delete(_) | Write::Strip(..) => write,
    }
}

impl Collection {
    /// The widths of dense vectors and the names of sparse ones.
    fn dense(&self, name: &str) -> Option<qd::VectorParams> {
        match self.created.vectors_config.as_ref()?.config.as_ref()? {
            Config::Params(params) => (name == UNNAMED).then_some(*params),
            Config::ParamsMap(map) => map.map.get(name).copied(),
        }
    }

    /// What a sparse vector's weights are multiplied with.
    pub fn modifier(&self, name: &str) -> Option<qd::Modifier> {
        let sparse = self.created.sparse_vectors_config.as_ref()?;
        Some(sparse.map.get(name)?.modifier())
    }

    /// Whether a query or stored vector is of the form that the collection has under this name.
    pub fn check_vector(&self, name: &str, vector: &Vector) -> Result<(), Status> {
        let fits = match vector {
            Vector::Dense(dense) => self
                .dense(name)
                .is_some_and(|params| params.size == dense.data.len() as u64),
            Vector::Sparse(sparse) => {
                let distinct: std::collections::BTreeSet<_> = sparse.indices.iter().collect();
                self.modifier(name).is_some()
                    && distinct.len() == sparse.values.len()
                    && sparse.indices.len() == sparse.values.len()
            }
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(Status::invalid_argument(
                "Wrong input: Vector dimension error or unknown name",
            ))
        }
    }

    fn check(&self, write: &Write) -> Result<(), Status> {
        let Write::Upsert(upsert) = write else {
            return Ok(());
        };
        for point in &upsert.points {
            for (name, vector) in named(point)? {
                self.check_vector(&name, &vector)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, write: Write) -> Result<(), Status> {
        match write {
            Write::Upsert(upsert) => {
                for point in upsert.points {
                    self.upsert(point, upsert.update_filter.as_ref())?;
                }
            }
            Write::Delete(selector) => {
                for id in self.selected(selector.as_ref())? {
                    self.points.remove(&id);
                }
            }
            Write::Strip(selector, names) => {
                for id in self.selected(selector.as_ref())? {
                    if let Some(point) = self.points.get_mut(&id) {
                        point.vectors.retain(|name, _| !names.contains(name));
                    }
                }
            }
        }
        Ok(())
    }

    fn upsert(
        &mut self,
        point: qd::PointStruct,
        condition: Option<&qd::Filter>,
    ) -> Result<(), Status> {
        let id = key(point.id.as_ref())?;
        if let (Some(stored), Some(condition)) = (self.points.get(&id), condition)
            && !matches(condition, id, stored)?
        {
            return Ok(());
        }
        let vectors = named(&point)?;
        let cosine = |name: &str| {
            let params = self.dense(name);
            params.is_some_and(|params| params.distance() == qd::Distance::Cosine)
        };
        let vectors: Vec<_> = vectors
            .into_iter()
            .map(|(name, vector)| match vector {
                Vector::Dense(dense) if cosine(&name) => {
                    let data = super::rank::normalised(dense.data);
                    (name, Vector::Dense(qd::DenseVector { data }))
                }
                vector => (name, vector),
            })
            .collect();
        // As when a point is moved out of a finished segment: vectors it has no successor for stay.
        let stored = self.points.entry(id).or_default();
        stored.vectors.extend(vectors);
        stored.payload = point.payload;
        Ok(())
    }

    fn selected(&self, selector: Option<&qd::PointsSelector>) -> Result<Vec<u128>, Status> {
        match selector.and_then(|selector| selector.points_selector_one_of.as_ref()) {
            Some(PointsSelectorOneOf::Points(list)) => {
                list.ids.iter().map(|id| key(Some(id))).collect()
            }
            Some(PointsSelectorOneOf::Filter(filter)) => self.found(Some(filter)),
            None => Err(Status::invalid_argument("PointsSelector is missing")),
        }
    }

    /// The points for which a filter holds, by id.
    pub fn found(&self, filter: Option<&qd::Filter>) -> Result<Vec<u128>, Status> {
        let mut found = Vec::new();
        for (id, point) in &self.points {
            if filter.is_none_or(|filter| filter == &qd::Filter::default())
                || matches(filter.expect("some"), *id, point)?
            {
                found.push(*id);
            }
        }
        Ok(found)
    }
}

/// A point id as a number; ids that are numbers already are not used by ragbus.
pub fn key(id: Option<&qd::PointId>) -> Result<u128, Status> {
    let malformed = || Status::invalid_argument("Unable to parse UUID");
    match id.and_then(|id| id.point_id_options.as_ref()) {
        Some(PointIdOptions::Uuid(text)) => {
            let uuid = Uuid::parse_str(text).map_err(|_| malformed())?;
            Ok(uuid.as_u128())
        }
        Some(PointIdOptions::Num(_)) | None => Err(malformed()),
    }
}

/// The wire's form of a point id.
pub fn point_id(key: u128) -> qd::PointId {
    Uuid::from_u128(key).to_string().into()
}

fn named(point: &qd::PointStruct) -> Result<Vec<(String, Vector)>, Status> {
    let missing = || Status::invalid_argument("Expected some vectors");
    let options = point
        .vectors
        .clone()
        .and_then(|vectors| vectors.vectors_options);
    let own = |vector: qd::Vector| vector.vector.ok_or_else(missing);
    match options.ok_or_else(missing)? {
        VectorsOptions::Vector(vector) => Ok(vec![(UNNAMED.to_owned(), own(vector)?)]),
        VectorsOptions::Vectors(named) => {
            let named = named.vectors.into_iter();
            named
                .map(|(name, vector)| Ok((name, own(vector)?)))
                .collect()
        }
    }
}
