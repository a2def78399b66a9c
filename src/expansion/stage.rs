//! The stage: expand, ask concurrently, merge.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;

use super::merge::{Answered, merged, weights};
use crate::error::{Error, Result};
use crate::model::{
    ExpansionOptions, Origin, QueryText, Retrieval, RetrievalRequest, StageName, StageReport,
};
use crate::spi::{Expanded, QueryExpander, RequestContext, Retriever};

/// Sub-queries of one request at once.
const FAN_OUT: usize = 4;
/// A language model gets at most this share of what is left of the budget: retrieval needs the rest.
const GENERATION_SHARE: u32 = 2;

/// How the stage works.
#[derive(Debug, Clone, Copy)]
pub struct ExpansionConfig {
    /// Strategy and hypothetical documents.
    pub options: ExpansionOptions,
    /// What a language model may take at most.
    pub timeout: Duration,
    /// Results each sub-query gives to the merge; the request's limit if that is larger. Independent of a smaller limit,
    /// so that a smaller limit gives a prefix.
    pub depth: u32,
    /// The configured k of rank fusion.
    pub rrf_k: u32,
}

/// Asks several queries for one.
#[derive(Debug)]
pub struct ExpansionRetriever {
    inner: Arc<dyn Retriever>,
    expander: Arc<dyn QueryExpander>,
    config: ExpansionConfig,
}

impl ExpansionRetriever {
    /// A stage around `inner`.
    pub fn new(
        inner: Arc<dyn Retriever>,
        expander: Arc<dyn QueryExpander>,
        config: ExpansionConfig,
    ) -> Self {
        Self {
            inner,
            expander,
            config,
        }
    }

    /// The queries, the original first and once. What fails leaves the original alone.
    async fn expanded(&self, query: &QueryText, context: &RequestContext) -> Expanded {
        let time = self
            .config
            .timeout
            .min(context.remaining() / GENERATION_SHARE);
        let deadline = Instant::now() + time;
        let expansion = self.expander.expand(query, self.config.options, deadline);
        let until = tokio::time::Instant::from_std(deadline);
        let expanded = match tokio::time::timeout_at(until, expansion).await {
            Ok(expanded) => expanded,
            Err(_) => Err(Error::timeout(StageName::Expansion.name())),
        };
        match expanded {
            Ok(expanded) => with_original(query, expanded),
            Err(error) => {
                tracing::warn!(error = %error.chain(), "the query is asked without expansion");
                Expanded {
                    queries: vec![query.clone()],
                    model_calls: 0,
                    degraded: true,
                }
            }
        }
    }

    /// Every sub-query through the inner stages; a failed one is left out.
    async fn fan_out(
        &self,
        request: &RetrievalRequest,
        queries: &[QueryText],
        context: &RequestContext,
    ) -> Vec<Result<Retrieval>> {
        let turns = context.in_turns(queries.len());
        let subs: Vec<(RetrievalRequest, RequestContext)> = queries
            .iter()
            .zip(turns)
            .map(|(query, turn)| {
                let sub = RetrievalRequest {
                    query: query.clone(),
                    limit: self.config.depth.max(request.limit),
                    ..request.clone()
                };
                (sub, turn)
            })
            .collect();
        let asked = subs.into_iter().map(|(sub, turn)| {
            let inner = Arc::clone(&self.inner);
            // The turn ends with the sub-query.
            async move { inner.retrieve(&sub, &turn).await }
        });
        stream::iter(asked).buffered(FAN_OUT).collect().await
    }

    async fn several(
        &self,
        request: &RetrievalRequest,
        queries: Vec<QueryText>,
        context: &RequestContext,
    ) -> Result<Retrieval> {
        let answers = self.fan_out(request, &queries, context).await;
        let weights = weights(&queries);
        let mut answered: Vec<Answered<'_>> = Vec::new();
        let mut failure = None;
        for ((query, weight), answer) in queries.iter().zip(weights).zip(answers) {
            match answer {
                Ok(answer) => answered.push((query, weight, answer)),
                Err(error) => {
                    tracing::warn!(error = %error.chain(), "a sub-query failed");
                    failure.get_or_insert(error);
                }
            }
        }
        let failed = failure.is_some();
        match failure {
            // The original comes first, so its error is the one that is told.
            Some(error) if answered.is_empty() => return Err(error),
            Some(_) | None => {}
        }
        let k = request.options.fusion.k.unwrap_or(self.config.rrf_k);
        let mut retrieval = merged(&request.query.text, answered, k);
        if failed {
            retrieval.degraded.push(StageName::Expansion);
        }
        retrieval.queries = queries;
        Ok(retrieval)
    }
}

/// The original exactly once and first, whatever the expander did.
fn with_original(original: &QueryText, mut expanded: Expanded) -> Expanded {
    let mut queries = vec![original.clone()];
    for query in expanded.queries {
        let same = |known: &QueryText| {
            known.text == query.text && known.expanded_text == query.expanded_text
        };
        if query.origin != Origin::Original && !queries.iter().any(same) {
            queries.push(query);
        }
    }
    expanded.degraded |= queries.len() == 1;
    expanded.queries = queries;
    expanded
}

#[async_trait]
impl Retriever for ExpansionRetriever {
    fn describe(&self) -> String {
        format!(
            "{} > {}",
            StageName::Expansion.name(),
            self.inner.describe()
        )
    }

    #[tracing::instrument(target = "ragbus", name = "expansion", skip_all)]
    async fn retrieve(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<Retrieval> {
        let started = Instant::now();
        let expanded = self.expanded(&request.query, context).await;
        let inside = Instant::now();
        let mut retrieval = if expanded.queries.len() == 1 {
            self.inner.retrieve(request, context).await?
        } else {
            self.several(request, expanded.queries, context).await?
        };
        let inside = inside.elapsed();
        if expanded.degraded {
            retrieval.degraded.push(StageName::Expansion);
        }
        let size = |chunks: usize| u32::try_from(chunks).unwrap_or(u32::MAX);
        let inputs = (retrieval.stages.first()).map_or(0, |inner| inner.outputs);
        context.cut(&mut retrieval.results, request.limit);
        let report = StageReport {
            stage: StageName::Expansion,
            duration: started.elapsed().saturating_sub(inside),
            inputs,
            outputs: size(retrieval.results.len()),
            model_calls: expanded.model_calls,
        };
        retrieval.stages.insert(0, report);
        Ok(retrieval)
    }
}
