//! The registry's rows beside the store's points: what the two databases say without the program.

use std::collections::BTreeMap;

use qdrant_client::qdrant::value::Kind;
use sqlx::{Connection, PgConnection, Row};
use uuid::Uuid;

use super::oracle::{Oracle, ids};
use crate::cluster::Cluster;

impl Oracle<'_> {
    /// Each document has one row: its sequence is the highest, and `live` that of every point it serves.
    pub async fn check_rows(&self, cluster: &Cluster) {
        let database = PgConnection::connect(&cluster.postgres.url()).await;
        let mut database = database.expect("connects");
        let asked = "SELECT tenant, corpus, document_id, sequence, live, deleted FROM documents";
        let rows = sqlx::query(asked).fetch_all(&mut database);
        let rows = rows.await.expect("rows");
        assert_eq!(rows.len(), self.last.len(), "a row for each document");
        let name = |row: &sqlx::postgres::PgRow, column: &str| row.get::<String, _>(column);
        let rows: BTreeMap<_, _> = rows
            .iter()
            .map(|row| {
                let place = ["tenant", "corpus", "document_id"].map(|column| name(row, column));
                let numbers = ["sequence", "live", "deleted"].map(|c| row.get::<i64, _>(c));
                (place, numbers)
            })
            .collect();
        let key = |(tenant, corpus, document): &(&str, &str, String)| {
            [(*tenant).to_owned(), (*corpus).to_owned(), document.clone()]
        };
        let points = sequences(cluster);
        let mut alive = 0;
        for (place, body, sequence) in self.alive() {
            let [newest, live, deleted] = rows[&key(place)];
            assert_eq!((newest as u64, deleted), (sequence, 0), "{place:?}");
            assert!(ids(place, body).all(|id| points[&id] == live), "{place:?}");
            alive += 1;
        }
        let undeleted = rows.values().filter(|[_, _, deleted]| *deleted == 0);
        assert_eq!(undeleted.count(), alive, "deleted documents stay deleted");
    }
}

/// The sequence that each point of a chunk carries.
fn sequences(cluster: &Cluster) -> BTreeMap<Uuid, i64> {
    let engine = cluster.qdrant.engine();
    let points = engine.collections.values().flat_map(|c| &c.points);
    points
        .filter_map(|(id, point)| match point.payload.get("sequence")?.kind {
            Some(Kind::IntegerValue(sequence)) => Some((Uuid::from_u128(*id), sequence)),
            _ => None,
        })
        .collect()
}
