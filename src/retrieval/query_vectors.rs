//! A query's vectors, one per leg, each computed once a request. Must not know a store.

use crate::error::{Error, Result};
use crate::model::{Leg, Origin, QueryText, SparseVector};
use crate::spi::{Encoded, LegVector, ModelSet, Priority, RequestContext, Role, TextEncoding};

/// The query's vectors and what making them cost.
#[derive(Debug, Default)]
pub(super) struct QueryVectors {
    /// Leg, weight and vector; a leg without anything to ask is left out.
    pub(super) legs: Vec<(Leg, f32, LegVector)>,
    /// Texts that were run through a model now.
    pub(super) model_calls: u32,
    pub(super) warnings: Vec<String>,
}

/// The vectors of the asked legs: the dense one of the expanded text when there is one, the others of the query itself.
#[tracing::instrument(target = "ragbus", name = "embed", skip_all)]
pub(super) async fn of(
    models: &ModelSet,
    query: &QueryText,
    asked: Vec<(Leg, f32)>,
    context: &RequestContext,
) -> Result<QueryVectors> {
    let wants = |leg| asked.iter().any(|(l, _)| *l == leg);
    let (wants_dense, wants_sparse) = (wants(Leg::Dense), wants(Leg::Sparse));
    let dense_text = query.expanded_text.as_ref().unwrap_or(&query.text);
    let (dense, sparse) = tokio::try_join!(
        when(wants_dense, dense(models, dense_text, context)),
        when(wants_sparse, sparse(models, &query.text, context))
    )?;
    let mut vectors = QueryVectors::default();
    for computed in [dense.as_ref().map(|d| d.1), sparse.as_ref().map(|s| s.1)] {
        vectors.model_calls += u32::from(computed == Some(true));
    }
    // What expansion wrote may be long: only what is cut off the caller's own text is worth a word.
    let own = query.origin == Origin::Original;
    let cut_dense = dense.as_ref().map_or(0, |d| d.0.truncated);
    let cut_sparse = sparse.as_ref().map_or(0, |s| s.0.truncated);
    vectors.warnings = truncation_warning(own, cut_dense.max(cut_sparse));
    for (leg, weight) in asked {
        let vector = match leg {
            Leg::Dense => dense.as_ref().map(|d| LegVector::Dense(d.0.vector.clone())),
            // An empty sparse vector finds nothing: the leg is skipped.
            Leg::Sparse => sparse
                .as_ref()
                .filter(|s| !s.0.vector.is_empty())
                .map(|s| LegVector::Sparse(s.0.vector.clone())),
            // No model: the analysis costs less than looking up what it gave before.
            Leg::Bm25 => Some(models.lexical.encode_query(&query.text))
                .filter(|terms| !terms.is_empty())
                .map(LegVector::Sparse),
        };
        vectors.legs.extend(vector.map(|v| (leg, weight, v)));
    }
    Ok(vectors)
}

async fn dense(
    models: &ModelSet,
    text: &str,
    context: &RequestContext,
) -> Result<(Encoded<Vec<f32>>, bool)> {
    let compute = || async { only(models.dense.encode_dense(encoding(text, context)).await?) };
    let model = &models.dense.info().id;
    context
        .memo()
        .dense
        .get_or_compute(model, text, compute)
        .await
}

async fn sparse(
    models: &ModelSet,
    text: &str,
    context: &RequestContext,
) -> Result<(Encoded<SparseVector>, bool)> {
    let compute = || async { only(models.sparse.encode_sparse(encoding(text, context)).await?) };
    let model = &models.sparse.info().id;
    context
        .memo()
        .sparse
        .get_or_compute(model, text, compute)
        .await
}

async fn when<V>(wanted: bool, work: impl Future<Output = Result<V>>) -> Result<Option<V>> {
    if wanted {
        work.await.map(Some)
    } else {
        Ok(None)
    }
}

fn truncation_warning(own: bool, tokens: u32) -> Vec<String> {
    if !own || tokens == 0 {
        return Vec::new();
    }
    vec![format!(
        "the query is longer than a model: {tokens} tokens were cut off"
    )]
}

fn encoding(text: &str, context: &RequestContext) -> TextEncoding {
    TextEncoding {
        texts: vec![text.to_owned()],
        role: Role::Query,
        priority: Priority::Interactive,
        deadline: Some(context.deadline()),
    }
}

fn only<V>(encoded: Vec<Result<Encoded<V>>>) -> Result<Encoded<V>> {
    encoded
        .into_iter()
        .next()
        .unwrap_or_else(|| Err(Error::internal("an encoder returned too few vectors")))
}
