//! What filtering would drop, counted on graded chunks that are judged relevant.

use std::collections::BTreeMap;

/// Relevant chunks that corrective grading returned, and those of them it calls `INCORRECT`: `FILTER` drops those.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Graded chunks of relevant documents.
    pub chunks: usize,
    /// Those graded `INCORRECT`.
    pub chunks_dropped: usize,
    /// Relevant documents with a graded chunk, over all queries.
    pub documents: usize,
    /// Those of them whose every graded chunk is `INCORRECT`.
    pub documents_dropped: usize,
}

impl Dropped {
    /// Adds one query's graded chunks of relevant documents: (document, whether `INCORRECT`).
    pub fn add<'a>(&mut self, graded: impl IntoIterator<Item = (&'a str, bool)>) {
        let mut documents: BTreeMap<&str, bool> = BTreeMap::new();
        for (document, incorrect) in graded {
            self.chunks += 1;
            self.chunks_dropped += usize::from(incorrect);
            let all = documents.entry(document).or_insert(true);
            *all &= incorrect;
        }
        self.documents += documents.len();
        self.documents_dropped += documents.values().filter(|all| **all).count();
    }

    /// Share of relevant chunks dropped; `None` when none was graded.
    pub fn share(&self) -> Option<f64> {
        (self.chunks > 0).then(|| self.chunks_dropped as f64 / self.chunks as f64)
    }

    /// Share of relevant documents dropped; `None` when none was graded.
    pub fn document_share(&self) -> Option<f64> {
        (self.documents > 0).then(|| self.documents_dropped as f64 / self.documents as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_goes_with_its_last_chunk() {
        let mut dropped = Dropped::default();
        assert_eq!(dropped.share(), None);
        dropped.add([("a", true), ("a", false), ("b", true), ("c", false)]);
        dropped.add([("a", true)]);
        assert_eq!((dropped.chunks, dropped.chunks_dropped), (5, 3));
        assert_eq!((dropped.documents, dropped.documents_dropped), (4, 2));
        assert_eq!(
            (dropped.share(), dropped.document_share()),
            (Some(0.6), Some(0.5))
        );
    }
}
