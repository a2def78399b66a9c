//! Ingest jobs from the wire.

use super::WireTimestamp;
use super::encoding::{Encoding, decode};
use super::metadata::metadata_of;
use super::v1::{self, ingest_request::Operation, put_document::Body};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    BlobRef, ChunkInput, Chunking, CorpusName, DocumentId, IngestOperation, Metadata, PutBody,
    PutChunks, PutDocument, Timestamp,
};

/// What an ingest body may ask for.
#[derive(Debug, Clone, Copy)]
pub struct IngestLimits {
    /// The dense model's length in tokens.
    pub max_tokens: u32,
    /// The largest body that may lie in a bucket, in bytes.
    pub max_blob: u64,
}

/// A decoded ingest body.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedIngest {
    /// The corpus.
    pub corpus: CorpusName,
    /// What to do.
    pub operation: IngestOperation,
}

/// What could be read of a body that was refused, so that its result can name it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Names {
    /// The corpus, when valid.
    pub corpus: String,
    /// The document, when valid.
    pub document_id: String,
}

/// Decodes and validates a job's body.
///
/// # Errors
/// `Malformed` for what can't be decoded, `InvalidField` for what is not allowed; with the names that could be read.
pub fn decode_ingest(
    body: &[u8],
    encoding: Encoding,
    limits: IngestLimits,
) -> std::result::Result<DecodedIngest, Box<(Names, Error)>> {
    let request: v1::IngestRequest =
        decode(body, encoding).map_err(|error| Box::new((Names::default(), error)))?;
    let names = names_of(&request);
    job_of(request, limits).map_err(|error| Box::new((names, error)))
}

fn names_of(request: &v1::IngestRequest) -> Names {
    let document = match &request.operation {
        Some(Operation::PutDocument(put)) => put.document_id.as_str(),
        Some(Operation::PutChunks(put)) => put.document_id.as_str(),
        Some(Operation::DeleteDocument(delete)) => delete.document_id.as_str(),
        Some(Operation::DeleteCorpus(_)) | None => "",
    };
    let valid = |text: &str, ok: bool| if ok { text.to_owned() } else { String::new() };
    Names {
        corpus: valid(&request.corpus, CorpusName::new(&request.corpus).is_ok()),
        document_id: valid(document, DocumentId::new(document).is_ok()),
    }
}

fn job_of(request: v1::IngestRequest, limits: IngestLimits) -> Result<DecodedIngest> {
    let corpus = CorpusName::new(&request.corpus)?;
    let operation = match request.operation {
        Some(Operation::PutDocument(put)) => {
            IngestOperation::PutDocument(put_document(put, limits)?)
        }
        Some(Operation::PutChunks(put)) => IngestOperation::PutChunks(put_chunks(put)?),
        Some(Operation::DeleteDocument(delete)) => {
            IngestOperation::DeleteDocument(DocumentId::new(&delete.document_id)?)
        }
        Some(Operation::DeleteCorpus(_)) => IngestOperation::DeleteCorpus,
        None => {
            return Err(Error::invalid_field(
                "operation",
                "must be one of putDocument, putChunks, deleteDocument, deleteCorpus",
            ));
        }
    };
    Ok(DecodedIngest { corpus, operation })
}

fn put_document(put: v1::PutDocument, limits: IngestLimits) -> Result<PutDocument> {
    let body = match put.body {
        Some(Body::Text(text)) => PutBody::Text(text),
        Some(Body::Data(data)) => PutBody::Data(data),
        Some(Body::Blob(blob)) => PutBody::Blob(blob_of(blob, limits)?),
        None => return Err(Error::invalid_field("text", "or data, or blob must be set")),
    };
    Ok(PutDocument {
        document_id: DocumentId::new(&put.document_id)?,
        body,
        media_type: bounded("mediaType", put.media_type, 256)?,
        file_name: bounded("fileName", put.file_name, 1024)?,
        metadata: metadata_of("metadata", put.metadata)?,
        expires_at: expiry(put.expires_at)?,
        chunking: chunking(put.chunking, limits)?,
    })
}

fn blob_of(blob: v1::Blob, limits: IngestLimits) -> Result<BlobRef> {
    let invalid =
        |field: &str, problem: &str| Error::invalid_field(format!("blob.{field}"), problem);
    if blob.name.is_empty() || blob.name.len() > 512 || blob.name.chars().any(char::is_control) {
        return Err(invalid(
            "name",
            "must be 1 to 512 bytes without control characters",
        ));
    }
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if blob.sha256.len() != 64 || !blob.sha256.bytes().all(hex) {
        return Err(invalid(
            "sha256",
            "must be 64 lower-case hexadecimal digits",
        ));
    }
    if blob.size == 0 {
        return Err(invalid("size", "must be at least 1"));
    }
    if blob.size > limits.max_blob {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the body is larger than {} bytes (worker.max_blob_bytes)",
                limits.max_blob
            ),
        ));
    }
    Ok(BlobRef {
        bucket: blob.bucket,
        name: blob.name,
        sha256: blob.sha256,
        size: blob.size,
    })
}

fn bounded(field: &str, text: String, bytes: usize) -> Result<String> {
    if text.len() > bytes {
        return Err(Error::invalid_field(
            field,
            format!("must not be longer than {bytes} bytes"),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid_field(
            field,
            "must not contain control characters",
        ));
    }
    Ok(text)
}

fn put_chunks(put: v1::PutChunks) -> Result<PutChunks> {
    let metadata = metadata_of("metadata", put.metadata)?;
    let chunks = put.chunks.into_iter().enumerate();
    Ok(PutChunks {
        document_id: DocumentId::new(&put.document_id)?,
        chunks: chunks
            .map(|(i, c)| chunk(i, c, &metadata))
            .collect::<Result<_>>()?,
        metadata,
        expires_at: expiry(put.expires_at)?,
    })
}

fn chunk(index: usize, input: v1::ChunkInput, of_all: &Metadata) -> Result<ChunkInput> {
    if input.content.trim().is_empty() {
        return Err(Error::invalid_field(
            format!("chunks[{index}].content"),
            "must not be blank",
        ));
    }
    let field = format!("chunks[{index}].metadata");
    let metadata = metadata_of(&field, input.metadata)?;
    of_all.overlaid(&field, &metadata)?;
    Ok(ChunkInput {
        content: input.content,
        metadata,
    })
}

fn expiry(time: Option<WireTimestamp>) -> Result<Option<Timestamp>> {
    time.map(|time| {
        time.to_model()
            .ok_or_else(|| Error::invalid_field("expiresAt", "is out of range"))
    })
    .transpose()
}

fn chunking(wanted: Option<v1::Chunking>, limits: IngestLimits) -> Result<Chunking> {
    let defaults = Chunking::default();
    let wanted = wanted.unwrap_or_default();
    let max = wanted.max_tokens.map_or(Ok(defaults.max_tokens), |n| {
        u32::try_from(n)
            .ok()
            .filter(|n| (1..=limits.max_tokens).contains(n))
            .ok_or_else(|| {
                let range = format!(
                    "must be 1 to {}, the dense model's length",
                    limits.max_tokens
                );
                Error::invalid_field("chunking.maxTokens", range)
            })
    })?;
    // The default overlap is a fifth of the default size; a smaller chunk keeps that proportion.
    let overlap = wanted
        .overlap_tokens
        .map_or(Ok(defaults.overlap_tokens.min(max / 5)), |n| {
            u32::try_from(n).ok().filter(|n| *n < max).ok_or_else(|| {
                Error::invalid_field(
                    "chunking.overlapTokens",
                    "must be at least 0 and below maxTokens",
                )
            })
        })?;
    Ok(Chunking {
        max_tokens: max,
        overlap_tokens: overlap,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: IngestLimits = IngestLimits {
        max_tokens: 256,
        max_blob: 1000,
    };

    fn decoded(json: &str) -> Result<DecodedIngest> {
        decode_ingest(json.as_bytes(), Encoding::Json, LIMITS).map_err(|refused| refused.1)
    }

    fn refused_field(json: &str) -> String {
        let error = decoded(json).expect_err(json);
        assert_eq!(error.kind(), ErrorKind::InvalidField, "{json}");
        error.field().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_document_is_read_with_all_its_fields() {
        let job = decoded(
            r#"{"corpus":"c","putDocument":{"documentId":"d","data":"aGVsbG8=","mediaType":"text/plain",
                "fileName":"a.txt","metadata":{"year":2020,"tags":["x"]},"expiresAt":"2030-01-01T00:00:00Z",
                "chunking":{"maxTokens":100}}}"#,
        )
        .expect("valid");
        let IngestOperation::PutDocument(put) = job.operation else {
            panic!("not a document");
        };
        assert_eq!(put.body, PutBody::Data(b"hello".to_vec()));
        assert_eq!(
            put.chunking,
            Chunking {
                max_tokens: 100,
                overlap_tokens: 20
            }
        );
        assert_eq!(
            put.expires_at,
            Some(Timestamp::from_micros(1_893_456_000_000_000))
        );
        assert_eq!(put.metadata.iter().count(), 2);
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        let put = |fields: &str| {
            format!(r#"{{"corpus":"c","putDocument":{{"documentId":"d","text":"x"{fields}}}}}"#)
        };
        for (json, field) in [
            (
                r#"{"corpus":"../x","deleteCorpus":{}}"#.to_owned(),
                "corpus",
            ),
            (r#"{"corpus":"c"}"#.to_owned(), "operation"),
            (
                r#"{"corpus":"c","deleteDocument":{"documentId":"a\u0000b"}}"#.to_owned(),
                "documentId",
            ),
            (
                r#"{"corpus":"c","putDocument":{"documentId":"d"}}"#.to_owned(),
                "text",
            ),
            (
                r#"{"corpus":"c","putDocument":{"documentId":"d","blob":{}}}"#.to_owned(),
                "blob.name",
            ),
            (
                r#"{"corpus":"c","putDocument":{"documentId":"d","blob":{"name":"n","sha256":"x"}}}"#
                    .to_owned(),
                "blob.sha256",
            ),
            (
                put(r#","chunking":{"maxTokens":257}"#),
                "chunking.maxTokens",
            ),
            (
                put(r#","chunking":{"maxTokens":10,"overlapTokens":10}"#),
                "chunking.overlapTokens",
            ),
            (
                put(r#","metadata":{"n":[1,-9007199254740993]}"#),
                "metadata.n",
            ),
            (put(r#","metadata":{"_n":1}"#), "metadata"),
            (put(r#","fileName":"a\u0007b""#), "fileName"),
            (
                r#"{"corpus":"c","putChunks":{"documentId":"d","chunks":[{"content":" "}]}}"#
                    .to_owned(),
                "chunks[0].content",
            ),
        ] {
            assert_eq!(refused_field(&json), field, "{json}");
        }
    }

    #[test]
    fn the_largest_exact_integer_is_taken() {
        let json = r#"{"corpus":"c","putDocument":{"documentId":"d","text":"x","metadata":{"n":9007199254740992}}}"#;
        assert!(decoded(json).is_ok());
    }

    #[test]
    fn a_refused_body_still_names_its_document() {
        let json =
            r#"{"corpus":"c","putDocument":{"documentId":"d","text":"x","metadata":{"k":null}}}"#;
        let refused = decode_ingest(json.as_bytes(), Encoding::Json, LIMITS).expect_err("refused");
        let names = Names {
            corpus: "c".into(),
            document_id: "d".into(),
        };
        assert_eq!((refused.0, refused.1.field()), (names, Some("metadata.k")));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode_ingest(&body, Encoding::Protobuf, LIMITS);
            let _ = decode_ingest(&body, Encoding::Json, LIMITS);
        }

        #[test]
        fn no_damaged_job_panics(cut in 0usize..200, flip in 0usize..200, to in any::<u8>()) {
            let mut json = br#"{"corpus":"c","putChunks":{"documentId":"d","chunks":[{"content":"x","metadata":{"a":[1,2],"b":"c"}}],"expiresAt":"2030-01-01T00:00:00Z"}}"#.to_vec();
            let place = flip % json.len();
            json[place] = to;
            json.truncate(json.len() - cut % json.len());
            let _ = decode_ingest(&json, Encoding::Json, LIMITS);
        }
    }
}
