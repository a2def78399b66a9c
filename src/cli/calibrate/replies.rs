//! Replies of corrective grading to judged pairs. Pure: a reply goes in, whoever gave it.

use std::collections::BTreeMap;

use crate::evaluation::{JudgedPair, Judgements};
use crate::wire::v1;

/// What replies gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Pairs {
    /// A pair for each judged document with a model output.
    pub judged: Vec<JudgedPair>,
    /// Documents nobody judged: neither relevant nor irrelevant, so they teach nothing.
    pub unjudged: usize,
    /// Judged documents that came back without a model output.
    pub without_output: usize,
}

impl Pairs {
    /// Adds a reply. A document's best chunk stands for it.
    pub(super) fn add(
        &mut self,
        query: &str,
        response: &v1::RetrieveResponse,
        judgements: &Judgements,
        relevant_from: i32,
    ) {
        let mut best: BTreeMap<&str, Option<f32>> = BTreeMap::new();
        for chunk in &response.results {
            let logit = chunk
                .signals
                .and_then(|signals| signals.cross_encoder_logit);
            let logit = logit
                .map(|logit| logit as f32)
                .filter(|logit| logit.is_finite());
            let so_far = best.entry(&chunk.document_id).or_default();
            *so_far = match (*so_far, logit) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            };
        }
        for (document, logit) in best {
            match (judgements.grade(query, document), logit) {
                (None, _) => self.unjudged += 1,
                (Some(_), None) => self.without_output += 1,
                (Some(grade), Some(logit)) => self.judged.push(JudgedPair {
                    query: query.to_owned(),
                    document: document.to_owned(),
                    logit,
                    relevant: grade >= relevant_from,
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Encoding, decode};

    const REPLY: &str = r#"{"results":[
        {"documentId":"a","signals":{"crossEncoderLogit":1.5}},
        {"documentId":"b","signals":{"crossEncoderLogit":0.5}},
        {"documentId":"a","signals":{"crossEncoderLogit":2.5}},
        {"documentId":"x","signals":{"crossEncoderLogit":0.0}},
        {"documentId":"c","signals":{"crossEncoderLogit":-3.25}},
        {"documentId":"d","grade":"UNGRADED"}]}"#;

    #[test]
    fn only_judged_documents_with_an_output_teach() {
        let response = decode(REPLY.as_bytes(), Encoding::Json).expect("a reply");
        let mut judgements = Judgements::default();
        for (document, grade) in [("a", 2), ("b", 1), ("c", -1), ("d", 1)] {
            judgements.insert("q", document, grade);
        }
        let mut pairs = Pairs::default();
        pairs.add("q", &response, &judgements, 2);
        let got: Vec<_> = pairs
            .judged
            .iter()
            .map(|p| (p.document.as_str(), p.logit, p.relevant))
            .collect();
        assert_eq!(
            got,
            [("a", 2.5, true), ("b", 0.5, false), ("c", -3.25, false)]
        );
        assert_eq!((pairs.unjudged, pairs.without_output), (1, 1));
    }
}
