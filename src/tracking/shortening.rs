//! Records that are too large for one message: what is worth least goes first, always in the same order, and the record says so.
//!
//! Must not know how a record is encoded: whoever does tells its size.

use crate::model::{ChunkFate, RetrievalRecord};

/// Added to the warnings of a record that was shortened.
pub const SHORTENED: &str = "this record was shortened to fit into a message";

/// The record, shortened until `size` is at most `limit`: dropped chunks go first, then what expansion wrote, the options, the
/// stages' warnings, and at last chunks of the reply from its end. The question, who asked, and how it ended always stay.
pub fn shortened(
    mut record: RetrievalRecord,
    limit: usize,
    size: impl Fn(&RetrievalRecord) -> usize,
) -> RetrievalRecord {
    if size(&record) <= limit {
        return record;
    }
    record.warnings.push(SHORTENED.to_owned());
    let steps: [fn(&mut RetrievalRecord); 4] = [
        |record| {
            record
                .chunks
                .retain(|chunk| chunk.fate == ChunkFate::Returned)
        },
        |record| record.queries.clear(),
        |record| record.options = "{}".to_owned(),
        |record| record.warnings = vec![SHORTENED.to_owned()],
    ];
    for step in steps {
        step(&mut record);
        if size(&record) <= limit {
            return record;
        }
    }
    while size(&record) > limit && !record.chunks.is_empty() {
        record.chunks.truncate(record.chunks.len() / 2);
    }
    record
}
