//! The stages around hybrid retrieval: corrective grading, reranking, expansion, and all of them together.

#[path = "support/word_corpus.rs"]
mod word_corpus;

mod stages {
    pub mod combinations;
    pub mod corrective;
    pub mod expansion;
    pub mod fakes;
    pub mod reranking;
    pub mod scores_doc;
    pub mod tracking;
}
