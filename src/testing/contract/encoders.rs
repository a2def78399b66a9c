//! What every text encoder must do.
//!
//! Must not know any encoder. A broken contract panics with the clause.

use std::time::{Duration, Instant};

use crate::error::ErrorKind;
use crate::model::SparseVector;
use crate::spi::{DenseEncoder, Encoded, Priority, Role, SparseEncoder, TextEncoding};

/// How far the same text's dense values may differ between batches.
const DENSE_TOLERANCE: f32 = 1e-4;

/// How far the same text's sparse weights may differ between batches.
const SPARSE_TOLERANCE: f32 = 1e-3;

/// Texts of very different lengths, the empty one among them.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "aerodynamics",
        "how is a lift coefficient measured in a wind tunnel",
        "",
        "The boundary layer separates where the pressure rises along the wing, and the wake grows.",
        "42",
        "Ærøskøbing, naïve façade, 東京",
    ]
    .map(str::to_owned)
    .into();
    texts.push("flow over a flat plate ".repeat(6));
    texts
}

fn request(texts: Vec<String>, priority: Priority) -> TextEncoding {
    TextEncoding {
        texts,
        role: Role::Document,
        priority,
        deadline: None,
    }
}

/// A text that is longer than any model with that many tokens takes.
fn over_long(max_tokens: u32) -> String {
    "wing ".repeat(max_tokens as usize * 2)
}

fn long_ago() -> Option<Instant> {
    Instant::now().checked_sub(Duration::from_millis(1))
}

/// Encodes with every text expected to succeed.
async fn dense(
    encoder: &dyn DenseEncoder,
    texts: Vec<String>,
    priority: Priority,
) -> Vec<Encoded<Vec<f32>>> {
    let count = texts.len();
    let results = encoder.encode_dense(request(texts, priority)).await;
    let results = results.expect("a call succeeds");
    assert_eq!(results.len(), count, "one result per text");
    results
        .into_iter()
        .map(|text| text.expect("a text succeeds"))
        .collect()
}

/// Encodes with every text expected to succeed.
async fn sparse(
    encoder: &dyn SparseEncoder,
    texts: Vec<String>,
    priority: Priority,
) -> Vec<Encoded<SparseVector>> {
    let count = texts.len();
    let results = encoder.encode_sparse(request(texts, priority)).await;
    let results = results.expect("a call succeeds");
    assert_eq!(results.len(), count, "one result per text");
    results
        .into_iter()
        .map(|text| text.expect("a text succeeds"))
        .collect()
}

/// The whole contract of a dense encoder.
///
/// # Panics
/// When the encoder breaks it.
pub async fn dense_encoder(encoder: &dyn DenseEncoder) {
    let info = encoder.info();
    assert!(
        info.special_tokens < info.max_tokens,
        "there is room for text"
    );
    assert!(
        dense(encoder, Vec::new(), Priority::Bulk).await.is_empty(),
        "an empty batch is fine"
    );

    let texts = texts();
    let together = dense(encoder, texts.clone(), Priority::Bulk).await;
    for encoded in &together {
        assert_eq!(
            encoded.vector.len(),
            info.dimension as usize,
            "the dimension is as said"
        );
        let length = encoded.vector.iter().map(|v| v * v).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-3, "vectors are normalised");
        check_tokens(encoded, info.max_tokens);
    }
    let mut backwards = dense(
        encoder,
        texts.iter().rev().cloned().collect(),
        Priority::Interactive,
    )
    .await;
    backwards.reverse();
    for (index, text) in texts.iter().enumerate() {
        let alone = dense(encoder, vec![text.clone()], Priority::Interactive).await;
        for other in [&alone[0], &backwards[index]] {
            assert_close(&together[index].vector, &other.vector);
            assert_eq!(
                together[index].tokens, other.tokens,
                "a text has its tokens in any batch"
            );
        }
    }

    let texts = vec![over_long(info.max_tokens), "wing".into()];
    let [long, short] = &dense(encoder, texts, Priority::Bulk).await[..] else {
        panic!("one result per text")
    };
    check_truncation(long, short, info.max_tokens);
    let mut late = request(
        vec!["late".into(), "too late".into()],
        Priority::Interactive,
    );
    late.deadline = long_ago();
    let results = encoder
        .encode_dense(late)
        .await
        .expect("lateness is about texts");
    check_late(&results, 2);
}

/// The whole contract of a sparse encoder.
///
/// # Panics
/// When the encoder breaks it.
pub async fn sparse_encoder(encoder: &dyn SparseEncoder) {
    let info = encoder.info();
    assert!(
        info.special_tokens < info.max_tokens,
        "there is room for text"
    );
    assert!(
        sparse(encoder, Vec::new(), Priority::Bulk).await.is_empty(),
        "an empty batch is fine"
    );

    let texts = texts();
    let together = sparse(encoder, texts.clone(), Priority::Bulk).await;
    for encoded in &together {
        check_sparse(&encoded.vector, info.dimension);
        check_tokens(encoded, info.max_tokens);
    }
    let mut backwards = sparse(
        encoder,
        texts.iter().rev().cloned().collect(),
        Priority::Interactive,
    )
    .await;
    backwards.reverse();
    for (index, text) in texts.iter().enumerate() {
        let alone = sparse(encoder, vec![text.clone()], Priority::Interactive).await;
        for other in [&alone[0], &backwards[index]] {
            assert_close_sparse(&together[index].vector, &other.vector);
            assert_eq!(
                together[index].tokens, other.tokens,
                "a text has its tokens in any batch"
            );
        }
    }

    let texts = vec![over_long(info.max_tokens), "wing".into()];
    let [long, short] = &sparse(encoder, texts, Priority::Bulk).await[..] else {
        panic!("one result per text")
    };
    check_truncation(long, short, info.max_tokens);
    let mut late = request(
        vec!["late".into(), "too late".into()],
        Priority::Interactive,
    );
    late.deadline = long_ago();
    let results = encoder
        .encode_sparse(late)
        .await
        .expect("lateness is about texts");
    check_late(&results, 2);
}

fn check_sparse(vector: &SparseVector, dimension: u32) {
    assert_eq!(
        vector.indices.len(),
        vector.values.len(),
        "a weight per index"
    );
    assert!(
        vector.indices.windows(2).all(|pair| pair[0] < pair[1]),
        "indices ascend"
    );
    assert!(
        vector.indices.iter().all(|&index| index < dimension),
        "indices are in the vocabulary"
    );
    let is_weight = |value: &f32| value.is_finite() && *value > 0.0;
    assert!(
        vector.values.iter().all(is_weight),
        "weights are finite and positive"
    );
}

fn check_tokens<V>(encoded: &Encoded<V>, max_tokens: u32) {
    assert!(encoded.tokens <= max_tokens, "the input fits the model");
    assert_eq!(encoded.truncated, 0, "a short text is not cut");
}

fn check_truncation<V>(long: &Encoded<V>, short: &Encoded<V>, max_tokens: u32) {
    assert_eq!(long.tokens, max_tokens, "a long text fills the model");
    assert!(long.truncated >= max_tokens, "what was cut is counted");
    assert_eq!(
        short.truncated, 0,
        "a short text beside a long one is not cut"
    );
}

fn check_late<V>(results: &[crate::error::Result<Encoded<V>>], texts: usize) {
    assert_eq!(results.len(), texts, "one result per text");
    for result in results {
        let kind = result.as_ref().err().map(crate::error::Error::kind);
        assert_eq!(
            kind,
            Some(ErrorKind::Timeout),
            "work past its deadline is dropped"
        );
    }
}

/// The vectors are equal within the dense tolerance.
///
/// # Panics
/// When they aren't.
pub fn assert_close(left: &[f32], right: &[f32]) {
    assert_eq!(left.len(), right.len());
    let differences = left.iter().zip(right).map(|(a, b)| (a - b).abs());
    let largest = differences.fold(0.0, f32::max);
    assert!(largest <= DENSE_TOLERANCE, "vectors differ by {largest}");
}

/// The vectors are equal within the sparse tolerance; a missing term weighs 0.
///
/// # Panics
/// When they aren't.
pub fn assert_close_sparse(left: &SparseVector, right: &SparseVector) {
    let weight = |vector: &SparseVector, index| {
        let position = vector.indices.binary_search(&index);
        position.map_or(0.0, |position| vector.values[position])
    };
    for &index in left.indices.iter().chain(&right.indices) {
        let difference = (weight(left, index) - weight(right, index)).abs();
        assert!(
            difference <= SPARSE_TOLERANCE,
            "term {index} differs by {difference}"
        );
    }
}
