//! From scored chunks or lines to a list of documents.

use std::collections::HashSet;

/// `trec_eval`'s order: score descending, equal scores by document id descending. It keeps scores as 32-bit numbers, so scores
/// that differ beyond those are equal (`trec_eval` 9, `form_res_rels.c`: `float sim`, `comp_sim_docno`).
pub fn trec_order(mut scored: Vec<(String, f64)>) -> Vec<String> {
    // Adding 0 makes -0 and 0 one number, as they are to a C program.
    let key = |score: f64| score as f32 + 0.0;
    scored.sort_by(|(a, x), (b, y)| key(*y).total_cmp(&key(*x)).then_with(|| b.cmp(a)));
    scored.into_iter().map(|(document, _)| document).collect()
}

/// Chunks of a reply, best first, to documents: each keeps the place and score of its best chunk.
pub fn collapse(chunks: impl IntoIterator<Item = (String, f64)>) -> Vec<(String, f64)> {
    let mut seen = HashSet::new();
    let first = |(document, _): &(String, f64)| seen.insert(document.clone());
    chunks.into_iter().filter(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_of_32_bits_go_by_id_from_the_end() {
        let scored = [
            ("a", 1.0),
            ("b", 1.0 + 1e-9),
            ("c", 2.0),
            ("d", 0.0),
            ("e", -0.0),
        ];
        let scored = scored.map(|(d, s)| (d.to_owned(), s)).to_vec();
        assert_eq!(trec_order(scored), ["c", "b", "a", "e", "d"]);
    }

    #[test]
    fn a_document_stands_where_its_best_chunk_stood() {
        let chunks = [("a", 3.0), ("b", 2.0), ("a", 1.0), ("c", 0.5), ("b", 0.1)];
        let documents = collapse(chunks.map(|(d, s)| (d.to_owned(), s)));
        let expected = [("a", 3.0), ("b", 2.0), ("c", 0.5)].map(|(d, s)| (d.to_owned(), s));
        assert_eq!(documents, expected);
    }
}
