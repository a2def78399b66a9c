//! Sixty documents of one to three chunks of random words, the same ones every time.

use ragbus::ingest::IngestProcessor;
use ragbus::model::{
    ChunkInput, CorpusRef, DocumentId, IngestJob, IngestOperation, JobId, Metadata, PutChunks,
};

const WORDS: [&str; 12] = [
    "river", "bank", "money", "loan", "water", "boat", "credit", "tree", "fish", "rate", "stone",
    "paper",
];

/// Puts them all.
pub async fn fill(processor: &IngestProcessor, corpus: &CorpusRef) {
    let mut state = 7u64;
    let mut word = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        WORDS[(state >> 33) as usize % WORDS.len()]
    };
    for sequence in 1..=60u64 {
        let chunks = (0..1 + sequence % 3).map(|_| ChunkInput {
            content: (0..6).map(|_| word()).collect::<Vec<_>>().join(" "),
            metadata: Metadata::default(),
        });
        let put = PutChunks {
            document_id: DocumentId::new(&format!("d{sequence}")).expect("valid"),
            chunks: chunks.collect(),
            metadata: Metadata::default(),
            expires_at: None,
        };
        let job = IngestJob {
            job_id: JobId::derive(None, sequence),
            corpus: corpus.clone(),
            sequence,
            attempt: 1,
            operation: IngestOperation::PutChunks(put),
        };
        processor.process(&job).await.expect("indexed");
    }
}
