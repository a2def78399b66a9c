//! The rules of replace, delete and fence (`ARCHITECTURE.md`), as pure functions over one document's row.
//!
//! Every registry loads the row, applies one of these in a short transaction, and stores it. Must not know SQL.
//! `tests/fencing_model.rs` checks the protocol exhaustively.

use super::{Hashes, IngestResult, IngestStatus, Metadata, Timestamp};

/// A document's row. The default is a row that was just created: a tombstone of sequence 0.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentRow {
    /// Newest finished job.
    pub sequence: u64,
    /// Newest started write.
    pub claimed: u64,
    /// Sequence of the points being served.
    pub live: u64,
    /// What was written.
    pub hashes: Hashes,
    /// Chunks of the document now.
    pub chunks: u32,
    /// Whether it is a tombstone.
    pub deleted: bool,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// The document's own metadata.
    pub metadata: Metadata,
    /// The result of the job `sequence`, when that was a document's job.
    pub result: Option<IngestResult>,
}

impl Default for DocumentRow {
    fn default() -> Self {
        Self {
            sequence: 0,
            claimed: 0,
            live: 0,
            hashes: Hashes::default(),
            chunks: 0,
            deleted: true,
            expires_at: None,
            metadata: Metadata::default(),
            result: None,
        }
    }
}

/// What step 1 decided about a put or a delete.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The job is finished: a newer job won, nothing differed, or the delete is done. Only clean-up is left.
    Finished(Box<IngestResult>),
    /// Only metadata differs: a full write that may keep the vectors of the live points.
    MetadataOnly,
    /// A full write.
    Write,
}

/// Step 1 of a put. `template` is the job's result with everything but its outcome.
pub fn begin_put(
    row: &mut DocumentRow,
    fence: u64,
    hashes: &Hashes,
    template: &IngestResult,
) -> Decision {
    let s = template.sequence;
    if let Some(finished) = already_decided(row, fence, template) {
        return finished;
    }
    let settled = !row.deleted && row.claimed <= row.sequence;
    let same_text = row.hashes.content == hashes.content && row.hashes.pipeline == hashes.pipeline;
    row.claimed = row.claimed.max(s);
    if !(settled && same_text) {
        return Decision::Write;
    }
    if row.hashes.metadata != hashes.metadata {
        return Decision::MetadataOnly;
    }
    row.sequence = s;
    let chunks = row.chunks;
    finish(row, template, IngestStatus::Unchanged, chunks, 0)
}

/// Step 1 of a delete: the row becomes a tombstone.
pub fn begin_delete(row: &mut DocumentRow, fence: u64, template: &IngestResult) -> Decision {
    if let Some(finished) = already_decided(row, fence, template) {
        return finished;
    }
    let removed = bury(row, template.sequence);
    finish(row, template, IngestStatus::Deleted, 0, removed)
}

/// A corpus deletion at `sequence` meets one document. Returns whether its points below `live` have to go:
/// also for a row that this very deletion buried before, because a crash may have come before the clean-up.
pub fn fence_document(row: &mut DocumentRow, sequence: u64) -> bool {
    if row.sequence > sequence {
        return false;
    }
    if row.sequence < sequence {
        bury(row, sequence);
        row.result = None;
    }
    true
}

/// A document whose time is over at `now` is buried at its own sequence, so that every newer job finds what it would have
/// found. Its points are those below `live`, which is one above. Returns whether it was due.
pub fn expire_document(row: &mut DocumentRow, now: Timestamp) -> bool {
    let due = row.expires_at.is_some_and(|at| at <= now);
    if row.deleted || !due {
        return false;
    }
    let (sequence, live) = (row.sequence, row.live.max(row.sequence) + 1);
    bury(row, sequence);
    row.live = live;
    true
}

/// What step 4 decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Finish {
    /// The job is finished with this result; clean up below the row's `live`.
    Done(Box<IngestResult>),
    /// The corpus has another generation: start again.
    GenerationChanged,
}

/// What a write put into the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The generation it went to.
    pub generation: u32,
    /// The hashes of what was written.
    pub hashes: Hashes,
    /// Chunks of the document now.
    pub chunks: u32,
    /// When the document expires.
    pub expires_at: Option<Timestamp>,
    /// The document's own metadata.
    pub metadata: Metadata,
    /// The result, its status `Indexed` or `MetadataUpdated`.
    pub result: IngestResult,
}

/// Step 4 of a put: the write becomes live unless something newer won.
pub fn finish_put(row: &mut DocumentRow, fence: u64, generation: u32, written: &Written) -> Finish {
    let template = &written.result;
    if let Some(Decision::Finished(result)) = already_decided(row, fence, template) {
        return Finish::Done(result);
    }
    if generation != written.generation {
        return Finish::GenerationChanged;
    }
    let before = if row.deleted { 0 } else { row.chunks };
    row.sequence = template.sequence;
    row.live = template.sequence;
    row.hashes = written.hashes.clone();
    row.deleted = false;
    row.expires_at = written.expires_at;
    row.metadata = written.metadata.clone();
    row.chunks = written.chunks;
    let mut result = template.clone();
    result.chunks = written.chunks;
    result.chunks_deleted = before.saturating_sub(written.chunks);
    row.result = Some(result.clone());
    Finish::Done(Box::new(result))
}

/// A job that a newer one or the fence beat, or that has finished before.
fn already_decided(row: &DocumentRow, fence: u64, template: &IngestResult) -> Option<Decision> {
    let s = template.sequence;
    if s == row.sequence
        && let Some(before) = &row.result
    {
        return Some(Decision::Finished(Box::new(before.clone())));
    }
    if s <= row.sequence || s <= fence {
        let mut result = template.clone();
        result.status = IngestStatus::Superseded;
        result.chunks = if row.deleted { 0 } else { row.chunks };
        return Some(Decision::Finished(Box::new(result)));
    }
    None
}

/// Makes the row a tombstone; returns the chunks it had.
fn bury(row: &mut DocumentRow, sequence: u64) -> u32 {
    let chunks = if row.deleted { 0 } else { row.chunks };
    row.sequence = sequence;
    row.live = sequence;
    row.claimed = row.claimed.max(sequence);
    row.hashes = Hashes::default();
    row.chunks = 0;
    row.deleted = true;
    row.expires_at = None;
    row.metadata = Metadata::default();
    chunks
}

fn finish(
    row: &mut DocumentRow,
    template: &IngestResult,
    status: IngestStatus,
    chunks: u32,
    removed: u32,
) -> Decision {
    let mut result = template.clone();
    result.status = status;
    result.chunks = chunks;
    result.chunks_deleted = removed;
    row.result = Some(result.clone());
    Decision::Finished(Box::new(result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn job(sequence: u64) -> IngestResult {
        IngestResult {
            job_id: format!("seq-{sequence}"),
            corpus: "c".into(),
            document_id: "d".into(),
            status: IngestStatus::Indexed,
            sequence,
            chunks: 0,
            chunks_deleted: 0,
            truncated_tokens: 0,
            warnings: vec![],
            error: None,
            timings: BTreeMap::new(),
            attempt: 1,
        }
    }

    fn hashes(content: &str, metadata: &str) -> Hashes {
        Hashes {
            content: content.into(),
            metadata: metadata.into(),
            pipeline: "p".into(),
        }
    }

    fn put(row: &mut DocumentRow, fence: u64, s: u64, h: &Hashes, chunks: u32) -> IngestResult {
        match begin_put(row, fence, h, &job(s)) {
            Decision::Finished(result) => *result,
            Decision::MetadataOnly | Decision::Write => {
                let written = Written {
                    generation: 1,
                    hashes: h.clone(),
                    chunks,
                    expires_at: None,
                    metadata: Metadata::default(),
                    result: job(s),
                };
                match finish_put(row, fence, 1, &written) {
                    Finish::Done(result) => *result,
                    Finish::GenerationChanged => panic!("same generation"),
                }
            }
        }
    }

    #[test]
    fn a_replacement_counts_what_it_removes() {
        let mut row = DocumentRow::default();
        assert_eq!(put(&mut row, 0, 5, &hashes("a", "m"), 10).chunks_deleted, 0);
        let second = put(&mut row, 0, 6, &hashes("b", "m"), 3);
        assert_eq!((second.chunks, second.chunks_deleted), (3, 7));
    }

    #[test]
    fn equal_hashes_are_unchanged_only_when_no_write_is_open() {
        let mut row = DocumentRow::default();
        put(&mut row, 0, 5, &hashes("a", "m"), 1);
        let same = put(&mut row, 0, 6, &hashes("a", "m"), 1);
        assert_eq!(same.status, IngestStatus::Unchanged);
        assert_eq!((row.sequence, row.live), (6, 5));
        // Job 7 starts another text and never finishes.
        assert_eq!(
            begin_put(&mut row, 0, &hashes("b", "m"), &job(7)),
            Decision::Write
        );
        assert_eq!(
            begin_put(&mut row, 0, &hashes("a", "m"), &job(8)),
            Decision::Write
        );
    }

    #[test]
    fn other_metadata_keeps_the_vectors() {
        let mut row = DocumentRow::default();
        put(&mut row, 0, 5, &hashes("a", "m"), 1);
        let decision = begin_put(&mut row, 0, &hashes("a", "n"), &job(6));
        assert_eq!(decision, Decision::MetadataOnly);
    }

    #[test]
    fn older_jobs_and_fenced_jobs_are_superseded_and_a_second_delivery_says_the_same() {
        let mut row = DocumentRow::default();
        let first = put(&mut row, 0, 5, &hashes("a", "m"), 2);
        assert_eq!(put(&mut row, 0, 5, &hashes("a", "m"), 2), first);
        assert_eq!(
            put(&mut row, 0, 4, &hashes("b", "m"), 1).status,
            IngestStatus::Superseded
        );
        assert_eq!(
            put(&mut row, 9, 8, &hashes("b", "m"), 1).status,
            IngestStatus::Superseded
        );
        assert_eq!(row.live, 5);
    }

    #[test]
    fn a_corpus_deletion_meets_its_own_tombstones_again() {
        let mut row = DocumentRow::default();
        put(&mut row, 0, 5, &hashes("a", "m"), 2);
        assert!(fence_document(&mut row, 7));
        assert!(fence_document(&mut row, 7));
        assert!((row.deleted, row.live) == (true, 7));
        put(&mut row, 7, 8, &hashes("a", "m"), 2);
        assert!(!fence_document(&mut row, 7));
    }

    #[test]
    fn what_has_expired_goes_and_newer_jobs_find_the_way_free() {
        let at = Timestamp::from_micros;
        let mut row = DocumentRow::default();
        put(&mut row, 0, 5, &hashes("a", "m"), 2);
        put(&mut row, 0, 6, &hashes("a", "m"), 2);
        row.expires_at = Some(at(10));
        assert!(!expire_document(&mut row, at(9)));
        assert!(expire_document(&mut row, at(10)), "at its very moment");
        assert!(!expire_document(&mut row, at(10)), "once");
        assert_eq!((row.sequence, row.live, row.deleted), (6, 7, true));
        assert_eq!(
            begin_put(&mut row, 0, &hashes("a", "m"), &job(7)),
            Decision::Write
        );
        assert_eq!(
            put(&mut row, 0, 4, &hashes("a", "m"), 1).status,
            IngestStatus::Superseded
        );
    }

    #[test]
    fn a_write_for_an_old_generation_starts_again() {
        let mut row = DocumentRow::default();
        let written = Written {
            generation: 1,
            hashes: hashes("a", "m"),
            chunks: 1,
            expires_at: None,
            metadata: Metadata::default(),
            result: job(5),
        };
        assert_eq!(
            finish_put(&mut row, 0, 2, &written),
            Finish::GenerationChanged
        );
        assert_eq!(row, DocumentRow::default());
    }
}
