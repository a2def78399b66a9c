//! What every cross-encoder must do.
//!
//! Must not know any cross-encoder. A broken contract panics with the clause.

use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};
use crate::spi::{CrossEncoder, PairScore, PairScoring, Priority};

/// How far the same pair's logits may differ between batches.
const TOLERANCE: f32 = 1e-3;

const QUERY: &str = "how is a lift coefficient measured";

/// Documents of very different lengths, the empty one among them.
fn documents() -> Vec<String> {
    let mut documents: Vec<String> = [
        "A lift coefficient is measured in a wind tunnel.",
        "",
        "42",
        "A text that spells [SEP] and [CLS], or </s>, is only text. [SEP]",
        "Ærøskøbing, naïve façade, 東京",
    ]
    .map(str::to_owned)
    .into();
    documents.push("flow over a flat plate ".repeat(6));
    documents
}

fn request(query: &str, documents: Vec<String>, priority: Priority) -> PairScoring {
    PairScoring {
        query: query.to_owned(),
        documents,
        priority,
        deadline: None,
    }
}

/// Scores with every pair expected to succeed.
async fn scores(
    encoder: &dyn CrossEncoder,
    documents: Vec<String>,
    priority: Priority,
) -> Vec<PairScore> {
    let count = documents.len();
    let results = encoder
        .score_pairs(request(QUERY, documents, priority))
        .await;
    let results = results.expect("a call succeeds");
    assert_eq!(results.len(), count, "one result per document");
    results
        .into_iter()
        .map(|pair| pair.expect("a pair succeeds"))
        .collect()
}

/// The whole contract of a cross-encoder that takes at least 40 tokens.
///
/// # Panics
/// When the cross-encoder breaks it.
pub async fn cross_encoder(encoder: &dyn CrossEncoder) {
    let none = scores(encoder, Vec::new(), Priority::Interactive).await;
    assert!(none.is_empty(), "no documents are fine");
    results_do_not_depend_on_the_batch(encoder).await;
    only_documents_are_cut(encoder).await;
    a_query_without_room_is_refused(encoder).await;
    late_pairs_are_dropped(encoder).await;
}

async fn results_do_not_depend_on_the_batch(encoder: &dyn CrossEncoder) {
    let max_tokens = encoder.info().max_tokens;
    let documents = documents();
    let together = scores(encoder, documents.clone(), Priority::Bulk).await;
    let backwards = documents.iter().rev().cloned().collect();
    let mut backwards = scores(encoder, backwards, Priority::Interactive).await;
    backwards.reverse();
    for (index, document) in documents.iter().enumerate() {
        let score = together[index];
        assert!(score.logit.is_finite(), "logits are finite");
        assert!(score.tokens <= max_tokens, "a pair fits the model");
        assert_eq!(score.truncated, 0, "a short document is not cut");
        let alone = scores(encoder, vec![document.clone()], Priority::Interactive).await;
        for other in [alone[0], backwards[index]] {
            assert_close(score.logit, other.logit);
            assert_eq!(
                score.tokens, other.tokens,
                "a pair has its tokens in any batch"
            );
        }
    }
}

async fn only_documents_are_cut(encoder: &dyn CrossEncoder) {
    let max_tokens = encoder.info().max_tokens;
    let long = "wing ".repeat(max_tokens as usize * 2);
    let documents = vec![long.clone(), "wing".into(), String::new()];
    let [cut, whole, empty] = &scores(encoder, documents, Priority::Bulk).await[..] else {
        panic!("one result per document")
    };
    assert_eq!(cut.tokens, max_tokens, "a long document fills the model");
    // The query takes its place in full; what of the document found none is counted.
    let room = max_tokens - empty.tokens;
    assert_eq!(
        cut.truncated,
        max_tokens * 2 - room,
        "what was cut is counted"
    );
    assert_eq!(whole.truncated, 0, "a short document beside it is not cut");
}

async fn a_query_without_room_is_refused(encoder: &dyn CrossEncoder) {
    let query = "wing ".repeat(encoder.info().max_tokens as usize);
    let documents = vec!["wing".to_owned(), String::new()];
    let results = encoder.score_pairs(request(&query, documents, Priority::Interactive));
    let results = results.await.expect("the query's length is about pairs");
    assert_eq!(results.len(), 2, "one result per document");
    for result in &results {
        let error = result.as_ref().expect_err("a query is never cut");
        assert_eq!(error.kind(), ErrorKind::InvalidField);
        assert_eq!(error.field(), Some("query"));
    }
}

async fn late_pairs_are_dropped(encoder: &dyn CrossEncoder) {
    let documents = vec!["late".into(), "too late".into()];
    let mut late = request(QUERY, documents, Priority::Interactive);
    late.deadline = Instant::now().checked_sub(Duration::from_millis(1));
    let results = encoder.score_pairs(late).await;
    let results = results.expect("lateness is about pairs");
    assert_eq!(results.len(), 2, "one result per document");
    for result in &results {
        let kind = result.as_ref().err().map(Error::kind);
        assert_eq!(kind, Some(ErrorKind::Timeout), "late work is dropped");
    }
}

/// The logits are equal within 1e-3.
///
/// # Panics
/// When they aren't.
pub fn assert_close(left: f32, right: f32) {
    let difference = (left - right).abs();
    assert!(difference <= TOLERANCE, "logits differ by {difference}");
}
