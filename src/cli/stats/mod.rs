//! `ragbus stats`: what tracked retrievals add up to, as tables, as JSON, or as a page with plots.
//!
//! Figures come over NATS from a worker. Must not know how they are counted.

mod tables;
pub(super) mod usage;
mod words;

use std::process::ExitCode;

use super::args_tracking::{Confidence, StatsArgs, StatsView};
use super::{context, output, report};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::CorpusName;
use crate::transport::nats::{Client, Reply};
use crate::wire::v1::{self, score, stats_request::View};
use usage::Usage;
pub(super) use words::{facts, feedback, means, members, question};

pub(super) async fn run(config: &Config, args: &StatsArgs) -> Result<ExitCode> {
    let tenant = context::tenant(&args.tenant)?;
    if let Some(name) = &args.corpus {
        CorpusName::new(name).map_err(|_| {
            Error::invalid_field("--corpus", "must match ^[a-z0-9][a-z0-9_-]{0,62}$")
        })?;
    }
    if args.html.is_some() && args.view != StatsView::Overview {
        return Err(Error::invalid_field("--html", "goes with the overview"));
    }
    let (client, connection) = context::client(config, &tenant).await?;
    let asking = Asking {
        client: &client,
        args,
    };
    let told = match args.view {
        StatsView::Overview => overview(&asking).await,
        view => one(&asking, view).await,
    };
    connection.close().await;
    told.map(|()| ExitCode::SUCCESS)
}

/// Asks for views of one window.
pub(super) struct Asking<'a> {
    client: &'a Client,
    args: &'a StatsArgs,
}

impl Asking<'_> {
    async fn ask(&self, corpus: &str, view: View) -> Result<Reply<v1::StatsResponse>> {
        let request = v1::StatsRequest {
            corpus: corpus.to_owned(),
            since: self.args.since.map(Into::into),
            until: self.args.until.map(Into::into),
            view: Some(view),
        };
        self.client
            .request("stats", &request, context::ANALYSIS)
            .await
    }

    async fn view(&self, corpus: &str, view: View) -> Result<v1::StatsResponse> {
        match self.ask(corpus, view).await? {
            Reply::Answer(response) => Ok(response),
            Reply::Refused(error) => Err(context::refused(&error)),
        }
    }

    /// A view that goes on over pages, up to the wanted number of rows.
    async fn paged(&self, corpus: &str, first: View) -> Result<v1::StatsResponse> {
        let mut all = self.view(corpus, first.clone()).await?;
        let wanted = self.args.limit.unsigned_abs() as usize;
        let rows = |all: &v1::StatsResponse| all.unretrieved.len() + all.judgements.len();
        while !all.next_cursor.is_empty() && rows(&all) < wanted {
            let next = behind(first.clone(), all.next_cursor.clone());
            let page = self.view(corpus, next).await?;
            all.unretrieved.extend(page.unretrieved);
            all.judgements.extend(page.judgements);
            all.next_cursor = page.next_cursor;
        }
        all.truncated = !all.next_cursor.is_empty() || rows(&all) > wanted;
        all.unretrieved.truncate(wanted);
        all.judgements.truncate(wanted);
        Ok(all)
    }
}

fn behind(mut view: View, next: String) -> View {
    match &mut view {
        View::Unretrieved(v1::UnretrievedView { cursor, .. })
        | View::Judgements(v1::JudgementsView { cursor, .. }) => *cursor = next,
        _ => {}
    }
    view
}

/// The request's view of a flag; the overview is none.
fn view_of(args: &StatsArgs, flag: StatsView) -> View {
    let limit = Some(args.limit);
    let page_size = limit;
    let cursor = String::new();
    match flag {
        StatsView::Overview | StatsView::Totals => View::Totals(v1::TotalsView {}),
        StatsView::Timeline => View::Timeline(v1::TimelineView {
            slices: Some(args.slices),
        }),
        StatsView::Latencies => View::Latencies(v1::LatenciesView {}),
        StatsView::Documents => View::Documents(v1::DocumentsView { limit }),
        StatsView::PoorDocuments => View::PoorDocuments(v1::PoorDocumentsView {
            limit,
            min_retrievals: args.min_retrievals,
            min_feedback: args.min_feedback,
            min_bad_share: args.min_bad_share,
        }),
        StatsView::Unretrieved => View::Unretrieved(v1::UnretrievedView { page_size, cursor }),
        StatsView::Queries => View::Queries(v1::QueriesView { limit }),
        StatsView::ZeroHit => View::ZeroHitQueries(v1::ZeroHitQueriesView { limit }),
        StatsView::LowRelevance => low_relevance(args, args.score_kind),
        StatsView::Clusters => View::Clusters(v1::ClustersView {
            limit,
            queries: None,
            min_similarity: args.min_similarity,
        }),
        StatsView::Feedback => View::Judgements(v1::JudgementsView { page_size, cursor }),
    }
}

fn low_relevance(args: &StatsArgs, kind: Confidence) -> View {
    let kind = match kind {
        Confidence::CrossEncoder => score::Kind::CrossEncoder,
        Confidence::Cosine => score::Kind::Cosine,
    };
    View::LowRelevanceQueries(v1::LowRelevanceQueriesView {
        limit: Some(args.limit),
        score_kind: kind.into(),
        below: args.below,
    })
}

async fn one(asking: &Asking<'_>, flag: StatsView) -> Result<()> {
    let args = asking.args;
    let corpus = args.corpus.as_deref().unwrap_or_default();
    let response = asking.paged(corpus, view_of(args, flag)).await?;
    if args.json {
        return output::json(&response);
    }
    tables::view(&response)
}

async fn overview(asking: &Asking<'_>) -> Result<()> {
    let args = asking.args;
    let name = args.corpus.as_deref().unwrap_or_default();
    let totals = asking.view(name, view_of(args, StatsView::Totals)).await?;
    let mut usages = Vec::new();
    for totals in totals.totals {
        // A corpus that nobody asked in this window has nothing to tell but that.
        if totals.retrievals > 0 || args.corpus.is_some() {
            usages.push(usage::usage(asking, totals).await?);
        }
    }
    if let Some(path) = &args.html {
        std::fs::write(path, report::usage_page(&args.tenant, &usages)?)
            .map_err(|e| Error::invalid_field("--html", "can't be written").caused_by(e))?;
    }
    if args.json {
        return output::json(&usage::as_json(args, &usages));
    }
    if usages.is_empty() {
        return output::line("no retrieval is kept of this window");
    }
    usages.iter().try_for_each(Usage::print)
}
