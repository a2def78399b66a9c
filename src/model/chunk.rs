//! Chunks: the unit that is embedded, stored and returned. Must not know vectors or payload layouts.

use std::fmt;

use super::{DocumentId, Metadata};

/// A span of the source text in bytes, `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// The identity of a stored chunk: a UUIDv5 of tenant, corpus, document and ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId(pub u128);

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        write!(
            f,
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }
}

/// A span of a document before it is embedded.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    /// Position in the document, from 0.
    pub ordinal: u32,
    /// The text.
    pub content: String,
    /// Where the text stands in the source; callers' own chunks have none.
    pub span: Option<Span>,
    /// The document's metadata with the chunk's own laid over it.
    pub metadata: Metadata,
}

/// A chunk as the store returns it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredChunk {
    /// The point's id.
    pub id: ChunkId,
    /// The document it belongs to.
    pub document_id: DocumentId,
    /// The sequence of the job that wrote it.
    pub sequence: u64,
    /// The chunk itself.
    pub chunk: Chunk,
    /// Lower-case hexadecimal SHA-256 of the content.
    pub content_hash: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_id_prints_as_a_uuid() {
        let id = ChunkId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "01234567-89ab-cdef-0123-456789abcdef");
    }
}
