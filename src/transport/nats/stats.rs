//! `rag.stats.<tenant>`: what the tenant's tracked retrievals add up to. Decodes, asks the ports, encodes within the message limit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::responder::{Call, Endpoint};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    CorpusName, CorpusRef, DocumentSelection, QuerySelection, TenantId, TimeWindow,
};
use crate::spi::{DocumentRegistry, RetrievalAnalysis, RetrievalTracker};
use crate::tracking::{QueryCluster, query_clusters, timeline, unretrieved_documents};
use crate::wire::{
    Encoding, JudgementPage, Page, StatsQuestion, StatsView, corpus_totals, cursor_after,
    decode_stats, document_use, encode_rows, judgement, judgement_cursor, latency, query_cluster,
    query_use, time_slice, unretrieved, v1,
};

/// What the endpoint is made of.
#[derive(Debug, Clone)]
pub struct StatsParts {
    /// The registry, for documents that were never retrieved.
    pub registry: Arc<dyn DocumentRegistry>,
    /// The tracker.
    pub tracker: Arc<dyn RetrievalTracker>,
    /// The analysis over its rows.
    pub analysis: Arc<dyn RetrievalAnalysis>,
    /// Default and largest time budget in milliseconds.
    pub timeouts_ms: (u32, u32),
}

/// The statistics endpoint.
#[derive(Debug)]
pub struct StatsEndpoint {
    parts: StatsParts,
}

/// How a reply is written.
struct Room {
    encoding: Encoding,
    limit: usize,
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

impl StatsEndpoint {
    /// An endpoint over these parts.
    pub fn new(parts: StatsParts) -> Self {
        Self { parts }
    }

    async fn response(&self, call: &Call, question: StatsQuestion) -> Result<Vec<u8>> {
        let tenant = call.tenant()?;
        let room = Room {
            encoding: call.encoding,
            limit: call.max_reply,
        };
        let window = question.window;
        match (question.view, question.corpus) {
            (StatsView::Totals, corpus) => self.totals(&room, tenant, corpus, window).await,
            (StatsView::Judgements(page), corpus) => {
                let corpus = corpus.as_ref();
                self.judgements(&room, tenant, corpus, window, page).await
            }
            (view, Some(corpus)) => {
                let corpus = CorpusRef::new(tenant.clone(), corpus);
                self.of_corpus(&room, &corpus, window, view).await
            }
            (_, None) => Err(Error::invalid_field("corpus", "must be set for this view")),
        }
    }

    async fn of_corpus(
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
    async fn totals(
        &self,
        room: &Room,
        tenant: &TenantId,
        corpus: Option<CorpusName>,
        window: TimeWindow,
    ) -> Result<Vec<u8>> {
        let corpora = match corpus {
            Some(corpus) => vec![corpus],
            None => self.parts.tracker.corpora_of(tenant).await?,
        };
        let mut rows = Vec::new();
        for name in corpora {
            let corpus = CorpusRef::new(tenant.clone(), name);
            let totals = self.parts.analysis.totals(&corpus, window).await?;
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
        let slices = timeline(&*self.parts.analysis, corpus, window, slices).await?;
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
        let rows = self.parts.analysis.latencies(corpus, window).await?;
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
        let analysis = &self.parts.analysis;
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
        let analysis = &self.parts.analysis;
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
        let analysis = &self.parts.analysis;
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
        let parts = &self.parts;
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

    async fn judgements(
        &self,
        room: &Room,
        tenant: &TenantId,
        corpus: Option<&CorpusName>,
        window: TimeWindow,
        page: JudgementPage,
    ) -> Result<Vec<u8>> {
        let tracker = &self.parts.tracker;
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
    let shared = cluster.shared.iter().map(|id| id.as_str());
    query_cluster(
        &cluster.queries,
        cluster.retrievals,
        shared,
        cluster.similarity,
    )
}

#[async_trait]
impl Endpoint for StatsEndpoint {
    fn verb(&self) -> &'static str {
        "stats"
    }

    async fn answer(&self, call: &Call) -> Result<Vec<u8>> {
        let question = decode_stats(&call.body, call.encoding)?;
        let budgets = self.parts.timeouts_ms;
        let millis = |ms: u32| Duration::from_millis(ms.into());
        let deadline = call.deadline(millis(budgets.0), millis(budgets.1))?;
        call.check_audit()?;
        let _place = call.admitted()?;
        match tokio::time::timeout_at(deadline.into(), self.response(call, question)).await {
            Ok(body) => body,
            Err(_) => Err(Error::timeout("stats")),
        }
    }
}
