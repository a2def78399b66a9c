//! The overview of one corpus: a useful choice of views.

use serde::Serialize;
use serde_json::{Value, json};

use super::super::args_tracking::{Confidence, StatsArgs, StatsView};
use super::super::{context, moments, output};
use super::{Asking, low_relevance, tables, view_of};
use crate::error::Result;
use crate::transport::nats::Reply;
use crate::wire::v1;

/// What a corpus was used for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Usage {
    pub(in crate::cli) corpus: String,
    pub(in crate::cli) totals: v1::CorpusTotals,
    pub(in crate::cli) timeline: Vec<v1::TimeSlice>,
    pub(in crate::cli) latencies: Vec<v1::Latency>,
    pub(in crate::cli) documents: Vec<v1::DocumentUse>,
    pub(in crate::cli) poor_documents: Vec<v1::DocumentUse>,
    /// Empty as well when the corpus is gone.
    pub(in crate::cli) unretrieved: Vec<v1::UnretrievedDocument>,
    pub(in crate::cli) more_unretrieved: bool,
    pub(in crate::cli) queries: Vec<v1::QueryUse>,
    pub(in crate::cli) zero_hit_queries: Vec<v1::QueryUse>,
    /// By either kind of score that is a confidence.
    pub(in crate::cli) low_relevance_queries: Vec<v1::QueryUse>,
    pub(in crate::cli) clusters: Vec<v1::QueryCluster>,
}

/// Asks for everything an overview shows.
pub(super) async fn usage(asking: &Asking<'_>, totals: v1::CorpusTotals) -> Result<Usage> {
    let corpus = totals.corpus.clone();
    let of = async |flag| asking.view(&corpus, view_of(asking.args, flag)).await;
    let mut low = Vec::new();
    for kind in [Confidence::CrossEncoder, Confidence::Cosine] {
        let view = low_relevance(asking.args, kind);
        low.extend(asking.view(&corpus, view).await?.queries);
    }
    let unretrieved = unretrieved(asking, &corpus).await?;
    Ok(Usage {
        timeline: of(StatsView::Timeline).await?.timeline,
        latencies: of(StatsView::Latencies).await?.latencies,
        documents: of(StatsView::Documents).await?.documents,
        poor_documents: of(StatsView::PoorDocuments).await?.documents,
        more_unretrieved: !unretrieved.next_cursor.is_empty(),
        unretrieved: unretrieved.unretrieved,
        queries: of(StatsView::Queries).await?.queries,
        zero_hit_queries: of(StatsView::ZeroHit).await?.queries,
        low_relevance_queries: low,
        clusters: of(StatsView::Clusters).await?.clusters,
        corpus,
        totals,
    })
}

/// Retrievals outlive their corpus, whose documents are then nobody's.
async fn unretrieved(asking: &Asking<'_>, corpus: &str) -> Result<v1::StatsResponse> {
    let view = view_of(asking.args, StatsView::Unretrieved);
    match asking.ask(corpus, view).await? {
        Reply::Answer(response) => Ok(response),
        Reply::Refused(error) if error.code == 404 => Ok(v1::StatsResponse::default()),
        Reply::Refused(error) => Err(context::refused(&error)),
    }
}

/// Overviews as one object.
pub(super) fn as_json(args: &StatsArgs, usages: &[Usage]) -> Value {
    json!({
        "tenant": args.tenant,
        "since": args.since.map(moments::rfc3339),
        "until": args.until.map(moments::rfc3339),
        "corpora": usages,
    })
}

impl Usage {
    pub(super) fn print(&self) -> Result<()> {
        tables::totals(std::slice::from_ref(&self.totals))?;
        let title = |title: &str, rows: usize| match rows {
            0 => Ok(()),
            _ => output::line(&format!("\n{title}")),
        };
        title("time", self.latencies.len())?;
        tables::latencies(&self.latencies)?;
        title("documents, most retrieved first", self.documents.len())?;
        tables::documents(&self.documents)?;
        title("retrieved often and judged bad", self.poor_documents.len())?;
        tables::documents(&self.poor_documents)?;
        title("never retrieved", self.unretrieved.len())?;
        tables::unretrieved(&self.unretrieved)?;
        if self.more_unretrieved {
            output::line("and more: --view unretrieved")?;
        }
        title("questions, most frequent first", self.queries.len())?;
        tables::queries(&self.queries)?;
        title("found nothing", self.zero_hit_queries.len())?;
        tables::queries(&self.zero_hit_queries)?;
        title("low relevance", self.low_relevance_queries.len())?;
        tables::queries(&self.low_relevance_queries)?;
        title("led to the same documents", self.clusters.len())?;
        tables::clusters(&self.clusters)
    }
}
