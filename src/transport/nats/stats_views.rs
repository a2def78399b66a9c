//! The views of `rag.stats.<tenant>`: each asks the ports for its rows and makes a reply of them that fits into a message.

use super::stats::StatsParts;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    CorpusName, CorpusRef, DocumentSelection, QuerySelection, TenantId, TimeWindow,
};
use crate::tracking::{QueryCluster, query_clusters, timeline, unretrieved_documents};
use crate::wire::{
    Encoding, JudgementPage, Page, StatsView, corpus_totals, cursor_after, document_use,
    encode_rows, judgement, judgement_cursor, latency, query_cluster, query_use, time_slice,
    unretrieved, v1,
};

/// How a reply is written.
pub(super) struct Room {
    pub(super) encoding: Encoding,
    pub(super) limit: usize,
}

impl Room {
    /// Rows as a reply; one more than `limit` of them tells that there are more.
    fn rows<T>(
        &self,
        mut rows: Vec<T>,
        limit: u32,
        build: impl Fn(&[T]) -> v1::StatsResponse,
    ) -> Result<Vec<u8>> {
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        encode_rows(&rows, self.encoding, self.limit, |rows, cut| {
            v1::StatsResponse {
                truncated: more || cut,
                ..build(rows)
            }
        })
    }
}

impl StatsParts {
    pub(super) async fn of_corpus(
        &self,
        room: &Room,
        corpus: &CorpusRef,
        window: TimeWindow,
        view: StatsView,
    ) -> Result<Vec<u8>> {
        match view {
            StatsView::Timeline(slices) => self.timeline(room, corpus, window, slices).await,
            StatsView::Latencies => self.latencies(room, corpus, window).await,
            StatsView::Documents(selection, limit) => {
                self.documents(room, corpus, window, selection, limit).await
            }
            StatsView::Unretrieved(page) => self.unretrieved(room, corpus, window, page).await,
            StatsView::Queries(selection, limit) => {
                self.queries(room, corpus, window, selection, limit).await
            }
            StatsView::Clusters {
                limit,
                queries,
                min_similarity,
            } => {
                let found = self.clusters(corpus, window, queries, min_similarity);
                room.rows(found.await?, limit, |rows| v1::StatsResponse {
                    clusters: rows.iter().map(cluster).collect(),
                    ..v1::StatsResponse::default()
                })
            }
            // Answered for all corpora at once.
            StatsView::Totals | StatsView::Judgements(_) => {
                Err(Error::internal("a view went astray"))
            }
        }
    }

    /// Of one corpus, or of every one that retrievals are kept of.
    pub(super) async fn totals(
        &self,
        room: &Room,
        tenant: &TenantId,
        corpus: Option<CorpusName>,
        window: TimeWindow,
    ) -> Result<Vec<u8>> {
        let corpora = match corpus {
            Some(corpus) => vec![corpus],
            None => self.tracker.corpora_of(tenant).await?,
        };
        let mut rows = Vec::new();
        for name in corpora {
            let corpus = CorpusRef::new(tenant.clone(), name);
            let totals = self.analysis.totals(&corpus, window).await?;
            rows.push(corpus_totals(&corpus.corpus, &totals));
        }
        room.rows(rows, u32::MAX, |rows| v1::StatsResponse {
            totals: rows.to_vec(),
            ..v1::StatsResponse::default()
        })
    }

    async fn timeline(
        &self,
        room: &Room,
        corpus: &CorpusRef,
        window: TimeWindow,
        slices: u32,
    ) -> Result<Vec<u8>> {
        let slices = timeline(&*self.analysis, corpus, window, slices).await?;
        room.rows(slices, u32::MAX, |rows| v1::StatsResponse {
            timeline: rows.iter().map(|(w, t)| time_slice(*w, t)).collect(),
            ..v1::StatsResponse::default()
        })
    }

    async fn latencies(
        &self,
        room: &Room,
        corpus: &CorpusRef,
        window: TimeWindow,
    ) -> Result<Vec<u8>> {
        let rows = self.analysis.latencies(corpus, window).await?;
        room.rows(rows, u32::MAX, |rows| v1::StatsResponse {
            latencies: rows.iter().map(latency).collect(),
            ..v1::StatsResponse::default()
        })
    }

    async fn documents(
        &self,
        room: &Room,
        corpus: &CorpusRef,
        window: TimeWindow,
        selection: DocumentSelection,
        limit: u32,
    ) -> Result<Vec<u8>> {
        let analysis = &self.analysis;
        let rows = analysis.document_stats(corpus, window, selection, limit + 1);
        room.rows(rows.await?, limit, |rows| v1::StatsResponse {
            documents: rows.iter().map(document_use).collect(),
            ..v1::StatsResponse::default()
        })
    }

    async fn queries(
        &self,
        room: &Room,
        corpus: &CorpusRef,
        window: TimeWindow,
        selection: QuerySelection,
        limit: u32,
    ) -> Result<Vec<u8>> {
        let analysis = &self.analysis;
        let rows = analysis.query_stats(corpus, window, selection, limit + 1);
        room.rows(rows.await?, limit, |rows| v1::StatsResponse {
            queries: rows.iter().map(query_use).collect(),
            ..v1::StatsResponse::default()
        })
    }

    async fn clusters(
        &self,
        corpus: &CorpusRef,
        window: TimeWindow,
        queries: u32,
        min_similarity: f64,
    ) -> Result<Vec<QueryCluster>> {
        let analysis = &self.analysis;
        let queries = analysis.query_documents(corpus, window, queries).await?;
        // Every question may share a document with every other one: too much work for a thread that others wait for.
        tokio::task::spawn_blocking(move || query_clusters(&queries, min_similarity))
            .await
            .map_err(|_| Error::internal("questions could not be compared"))
    }

    async fn unretrieved(
        &self,
        room: &Room,
        corpus: &CorpusRef,
        window: TimeWindow,
        page: Page,
    ) -> Result<Vec<u8>> {
        let parts = self;
        if parts.registry.corpus_models(corpus).await?.is_none() {
            return Err(Error::new(ErrorKind::NotFound, "the corpus doesn't exist"));
        }
        let found = unretrieved_documents(
            &*parts.registry,
            &*parts.tracker,
            corpus,
            window,
            page.after,
            page.size,
        )
        .await?;
        encode_rows(&found.documents, room.encoding, room.limit, |rows, cut| {
            let next = match cut {
                true => rows.last().map(|entry| &entry.document_id),
                false => found.next.as_ref(),
            };
            v1::StatsResponse {
                unretrieved: rows.iter().map(unretrieved).collect(),
                next_cursor: next.map(cursor_after).unwrap_or_default(),
                ..v1::StatsResponse::default()
            }
        })
    }

    pub(super) async fn judgements(
        &self,
        room: &Room,
        tenant: &TenantId,
        corpus: Option<&CorpusName>,
        window: TimeWindow,
        page: JudgementPage,
    ) -> Result<Vec<u8>> {
        let tracker = &self.tracker;
        let mut rows = tracker
            .judgements(tenant, corpus, window, page.after.as_ref(), page.size + 1)
            .await?;
        let more = rows.len() > page.size as usize;
        rows.truncate(page.size as usize);
        encode_rows(&rows, room.encoding, room.limit, |rows, cut| {
            let last = rows.last().filter(|_| more || cut);
            v1::StatsResponse {
                judgements: rows.iter().map(judgement).collect(),
                next_cursor: last
                    .map(|j| judgement_cursor(&j.position()))
                    .unwrap_or_default(),
                ..v1::StatsResponse::default()
            }
        })
    }
}

fn cluster(cluster: &QueryCluster) -> v1::QueryCluster {
    let QueryCluster {
        queries,
        retrievals,
        shared,
        similarity,
    } = cluster;
    query_cluster(queries, *retrievals, shared, *similarity)
}
