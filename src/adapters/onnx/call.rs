//! What a caller asks of a model: texts by themselves, or documents against one query.
//!
//! Must not know queues or sessions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::manifest::ModelFolder;
use super::tokenize::{TextTokenizer, Tokenized};
use crate::error::{Error, Result};
use crate::spi::{PairScoring, Priority, Role, TextEncoding};

/// A loaded model as its callers see it.
#[derive(Debug)]
pub(super) struct LoadedModel {
    /// Position in the pool.
    pub(super) index: usize,
    pub(super) folder: ModelFolder,
    pub(super) tokenizer: Arc<TextTokenizer>,
}

/// One call: each text becomes one input of the model.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) texts: Vec<String>,
    pub(super) form: Form,
    pub(super) priority: Priority,
    pub(super) deadline: Option<Instant>,
}

impl From<TextEncoding> for Call {
    fn from(request: TextEncoding) -> Self {
        Self {
            texts: request.texts,
            form: Form::Single(request.role),
            priority: request.priority,
            deadline: request.deadline,
        }
    }
}

impl From<PairScoring> for Call {
    fn from(request: PairScoring) -> Self {
        let query = PairQuery {
            text: request.query,
            tokens: OnceLock::new(),
        };
        Self {
            texts: request.documents,
            form: Form::Document(Arc::new(query)),
            priority: request.priority,
            deadline: request.deadline,
        }
    }
}

/// How a text becomes an input.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// By itself.
    Single(Role),
    /// As the document of a pair.
    Document(Arc<PairQuery>),
}

impl Form {
    /// Tokenises a text. CPU-bound.
    ///
    /// # Errors
    /// `InvalidField` on `query` when a pair has no room for a document; `Internal` when the tokenizer refuses a text.
    pub(super) fn tokenize(&self, model: &LoadedModel, text: &str) -> Result<Tokenized> {
        // The library has paths that panic; one text must not take its neighbours along.
        catch_unwind(AssertUnwindSafe(|| match self {
            Form::Single(role) => model.tokenizer.tokenize(model.folder.prefix(*role), text),
            Form::Document(query) => {
                let prefix = model.folder.prefix(Role::Document);
                model
                    .tokenizer
                    .tokenize_pair(query.tokens(model)?, prefix, text)
            }
        }))
        .unwrap_or_else(|_| Err(panicked()))
    }
}

/// The query of a call, tokenised with the first document and then kept.
#[derive(Debug)]
pub(super) struct PairQuery {
    text: String,
    /// `None` in the cell when the tokenizer refused the text: an error can't be cloned for each pair.
    tokens: OnceLock<Option<Vec<u32>>>,
}

impl PairQuery {
    fn tokens(&self, model: &LoadedModel) -> Result<&[u32]> {
        let tokens = self.tokens.get_or_init(|| {
            let prefix = model.folder.prefix(Role::Query);
            let tokenize = || model.tokenizer.tokenize_query(prefix, &self.text);
            // Caught in here, so that a query that panics does so once and not with every document.
            catch_unwind(AssertUnwindSafe(tokenize))
                .unwrap_or_else(|_| Err(panicked()))
                .ok()
        });
        tokens
            .as_deref()
            .ok_or_else(|| Error::internal("the query can't be tokenised"))
    }
}

fn panicked() -> Error {
    Error::internal("the tokenizer panicked")
}
