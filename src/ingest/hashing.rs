//! Hashes that decide whether a put changes anything. Canonical and length-prefixed: no two inputs share an encoding.

use sha2::{Digest, Sha256};

use super::chunking::CHUNKER_VERSION;
use crate::model::{
    Chunking, CollectionSchema, Hashes, Metadata, MetadataValue, PutBody, PutChunks, PutDocument,
    Timestamp,
};

/// Lower-case hexadecimal SHA-256 of a chunk's content, as replies carry it.
pub fn content_hash(content: &str) -> String {
    sha256_hex(content.as_bytes())
}

/// Lower-case hexadecimal SHA-256.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The hashes of a put into a collection of this schema.
pub(super) trait PutHashes {
    /// Computes them.
    fn hashes(&self, schema: &CollectionSchema) -> Hashes;

    /// The one that the schema alone changes.
    fn pipeline(&self, schema: &CollectionSchema) -> String;
}

impl PutHashes for PutDocument {
    fn hashes(&self, schema: &CollectionSchema) -> Hashes {
        let mut content = Canonical::new("document");
        match &self.body {
            PutBody::Text(text) => content.bytes(b"text").bytes(text.as_bytes()),
            PutBody::Data(data) => content.bytes(b"data").bytes(data),
            // Hashed as data once it is fetched; by its name nothing is known of it.
            PutBody::Blob(blob) => content.bytes(b"blob").bytes(blob.sha256.as_bytes()),
        };
        content
            .bytes(self.media_type.as_bytes())
            .bytes(self.file_name.as_bytes());
        let Chunking {
            max_tokens,
            overlap_tokens,
        } = self.chunking;
        content
            .number(max_tokens.into())
            .number(overlap_tokens.into());
        let mut metadata = Canonical::new("metadata");
        metadata.metadata(&self.metadata).expiry(self.expires_at);
        Hashes {
            content: content.finish(),
            metadata: metadata.finish(),
            pipeline: self.pipeline(schema),
        }
    }

    fn pipeline(&self, schema: &CollectionSchema) -> String {
        pipeline(CHUNKER_VERSION, schema)
    }
}

impl PutHashes for PutChunks {
    fn hashes(&self, schema: &CollectionSchema) -> Hashes {
        let mut content = Canonical::new("chunks");
        let mut metadata = Canonical::new("metadata");
        metadata.metadata(&self.metadata).expiry(self.expires_at);
        for chunk in &self.chunks {
            content.bytes(chunk.content.as_bytes());
            metadata.metadata(&chunk.metadata);
        }
        Hashes {
            content: content.finish(),
            metadata: metadata.finish(),
            pipeline: self.pipeline(schema),
        }
    }

    fn pipeline(&self, schema: &CollectionSchema) -> String {
        pipeline("callers-own", schema)
    }
}

fn pipeline(chunker: &str, schema: &CollectionSchema) -> String {
    let mut canonical = Canonical::new("pipeline");
    canonical
        .bytes(chunker.as_bytes())
        .bytes(schema.dense_model.as_bytes())
        .bytes(schema.sparse_model.as_bytes())
        .bytes(schema.lexical.as_bytes());
    canonical.finish()
}

/// Length-prefixed input to a hash.
struct Canonical(Sha256);

impl Canonical {
    fn new(domain: &str) -> Self {
        let mut canonical = Self(Sha256::new());
        canonical.bytes(domain.as_bytes());
        canonical
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    fn expiry(&mut self, time: Option<Timestamp>) -> &mut Self {
        match time {
            None => self.bytes(b""),
            Some(time) => self.bytes(&time.as_micros().to_be_bytes()),
        }
    }

    fn metadata(&mut self, metadata: &Metadata) -> &mut Self {
        self.number(metadata.iter().count() as u64);
        for (key, value) in metadata.iter() {
            self.bytes(key.as_bytes());
            self.value(value);
        }
        self
    }

    fn value(&mut self, value: &MetadataValue) -> &mut Self {
        match value {
            MetadataValue::String(text) => self.bytes(b"s").bytes(text.as_bytes()),
            MetadataValue::Number(number) => self.bytes(b"n").number(number.to_bits()),
            MetadataValue::Bool(truth) => self.bytes(b"b").bytes(&[u8::from(*truth)]),
            MetadataValue::Strings(texts) => {
                self.bytes(b"ss").number(texts.len() as u64);
                texts
                    .iter()
                    .fold(self, |hash, text| hash.bytes(text.as_bytes()))
            }
            MetadataValue::Numbers(numbers) => {
                self.bytes(b"ns").number(numbers.len() as u64);
                numbers
                    .iter()
                    .fold(self, |hash, n| hash.number(n.to_bits()))
            }
        }
    }

    fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string can't fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ChunkInput, Distance, DocumentId, SCHEMA_VERSION};

    fn schema(dense: &str) -> CollectionSchema {
        CollectionSchema {
            version: SCHEMA_VERSION,
            dense_model: dense.into(),
            sparse_model: "s".into(),
            dimension: 4,
            distance: Distance::Cosine,
            lexical: "l".into(),
        }
    }

    fn put(text: &str) -> PutDocument {
        PutDocument {
            document_id: DocumentId::new("d").expect("valid"),
            body: PutBody::Text(text.into()),
            media_type: String::new(),
            file_name: String::new(),
            metadata: Metadata::default(),
            expires_at: None,
            chunking: Chunking::default(),
        }
    }

    #[test]
    fn each_hash_covers_its_own_part() {
        let base = put("a").hashes(&schema("m"));
        let mut other = put("a");
        other.expires_at = Some(Timestamp::from_micros(1));
        let expiry = other.hashes(&schema("m"));
        assert_eq!(expiry.content, base.content);
        assert_ne!(expiry.metadata, base.metadata);
        let mut other = put("a");
        other.chunking.max_tokens = 100;
        assert_ne!(other.hashes(&schema("m")).content, base.content);
        assert_ne!(put("a").hashes(&schema("m2")).pipeline, base.pipeline);
        assert_ne!(put("b").hashes(&schema("m")).content, base.content);
    }

    #[test]
    fn chunk_borders_are_part_of_the_content() {
        let chunks = |texts: &[&str]| {
            let put = PutChunks {
                document_id: DocumentId::new("d").expect("valid"),
                chunks: texts
                    .iter()
                    .map(|t| ChunkInput {
                        content: (*t).into(),
                        metadata: Metadata::default(),
                    })
                    .collect(),
                metadata: Metadata::default(),
                expires_at: None,
            };
            put.hashes(&schema("m")).content
        };
        assert_ne!(chunks(&["ab", "c"]), chunks(&["a", "bc"]));
        assert_ne!(chunks(&[]), chunks(&["a"]));
    }

    #[test]
    fn a_content_hash_is_plain_sha256() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(content_hash("abc"), of_abc);
    }
}
