//! The strategies: a fixed sentence, hypothetical documents (HyDE: Gao et al., "Precise Zero-Shot Dense Retrieval without
//! Relevance Labels", 2023), a broader question (Zheng et al., "Take a Step Back", 2023), or both.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::future::join_all;

use super::likeness::is_copy;
use super::{answer, prompts};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{ExpansionOptions, ExpansionStrategy, Origin, QueryText};
use crate::spi::{Expanded, Generation, QueryExpander, TextGenerator};

const PASSAGE_TOKENS: u32 = 300;
const QUESTION_TOKENS: u32 = 80;

/// Expands by the strategy the options name.
#[derive(Debug, Clone)]
pub struct StrategyExpander {
    generator: Option<Arc<dyn TextGenerator>>,
}

impl StrategyExpander {
    /// An expander; without a language model it knows the template only.
    pub fn new(generator: Option<Arc<dyn TextGenerator>>) -> Self {
        Self { generator }
    }
}

/// A text that is wanted from the language model.
struct Wanted {
    origin: Origin,
    generation: Generation,
}

fn wanted(query: &QueryText, options: ExpansionOptions, deadline: Instant) -> Vec<Wanted> {
    let generation = |instruction, max_tokens| Generation {
        instruction,
        input: query.text.clone(),
        max_tokens,
        // The likeliest answer: the same question gets the same queries, as far as the model allows. Angles bring variety.
        temperature: 0.0,
        deadline,
    };
    let hypotheticals = match options.strategy {
        ExpansionStrategy::Hyde | ExpansionStrategy::HydeStepBack => options.hypotheticals as usize,
        ExpansionStrategy::None | ExpansionStrategy::Template | ExpansionStrategy::StepBack => 0,
    };
    let passages = (0..hypotheticals).map(|index| Wanted {
        origin: Origin::Hyde,
        generation: generation(prompts::hypothetical(index), PASSAGE_TOKENS),
    });
    let question = options.strategy.steps_back().then(|| Wanted {
        origin: Origin::StepBack,
        generation: generation(prompts::step_back(), QUESTION_TOKENS),
    });
    passages.chain(question).collect()
}

/// The query an answer makes; `None` when it says nothing new.
fn query_of(original: &QueryText, origin: Origin, answer: &str) -> Option<QueryText> {
    let query = match origin {
        Origin::StepBack => QueryText {
            text: answer::question(answer)?,
            expanded_text: None,
            origin,
        },
        Origin::Original | Origin::Template | Origin::Hyde => QueryText {
            text: original.text.clone(),
            expanded_text: Some(answer::passage(answer)?),
            origin,
        },
    };
    (!is_copy(said(&query), &original.text)).then_some(query)
}

/// What a query says beyond the original.
fn said(query: &QueryText) -> &str {
    query.expanded_text.as_ref().unwrap_or(&query.text)
}

#[async_trait]
impl QueryExpander for StrategyExpander {
    async fn expand(
        &self,
        query: &QueryText,
        options: ExpansionOptions,
        deadline: Instant,
    ) -> Result<Expanded> {
        let mut expanded = Expanded {
            queries: vec![query.clone()],
            ..Expanded::default()
        };
        if options.strategy == ExpansionStrategy::Template {
            expanded.queries.push(QueryText {
                text: query.text.clone(),
                expanded_text: Some(prompts::template(query)),
                origin: Origin::Template,
            });
        }
        let wanted = wanted(query, options, deadline);
        if wanted.is_empty() {
            return Ok(expanded);
        }
        let generator = self.generator.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::DependencyFailed,
                "no language model is configured",
            )
        })?;
        expanded.model_calls = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
        let answers = join_all(wanted.into_iter().map(|wanted| async move {
            (wanted.origin, generator.generate(wanted.generation).await)
        }));
        let until = tokio::time::Instant::from_std(deadline);
        let answers = tokio::time::timeout_at(until, answers)
            .await
            .map_err(|_| Error::timeout("expansion"))?;
        for (origin, answer) in answers {
            let usable = match answer {
                Ok(answer) => query_of(query, origin, &answer),
                Err(error) => {
                    tracing::warn!(error = %error.chain(), "the language model gave no answer");
                    None
                }
            };
            let new = usable.filter(|new| {
                let mut known = expanded.queries.iter();
                known.all(|old| !is_copy(said(new), said(old)))
            });
            expanded.degraded |= new.is_none();
            expanded.queries.extend(new);
        }
        Ok(expanded)
    }
}
