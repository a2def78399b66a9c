//! Texts to lexical vectors. No model and no wait: a function of the text.

use std::fmt;

use crate::model::SparseVector;

/// Analyses texts for the lexical leg. How rare a term is, the store weighs itself.
pub trait LexicalEncoder: Send + Sync + fmt::Debug {
    /// Names the analysis: texts analysed under different ids can't be compared.
    fn id(&self) -> &str;

    /// A document's terms, weighted by how often they occur in how long a text.
    fn encode_document(&self, text: &str) -> SparseVector;

    /// A query's terms; empty when it has none.
    fn encode_query(&self, text: &str) -> SparseVector;
}
