//! Rows of the registry's tables as values, for both SQL databases: only the driver's row type differs.
//!
//! Must not know which statement a row came from.

/// Readers of `$row`. What they name is imported by [`sql_registry!`](super::registry_statements).
macro_rules! registry_rows {
    ($row:ty) => {
        fn unsigned(row: &$row, column: &str) -> Result<u64> {
            let value: i64 = row.try_get(column).map_err(sql_failed)?;
            u64::try_from(value).map_err(|e| damaged("a negative number", e))
        }

        fn small(row: &$row, column: &str) -> Result<u32> {
            let value = unsigned(row, column)?;
            u32::try_from(value).map_err(|e| damaged("a number out of range", e))
        }

        fn text(row: &$row, column: &str) -> Result<String> {
            row.try_get(column).map_err(sql_failed)
        }

        fn time(row: &$row, column: &str) -> Result<Option<Timestamp>> {
            let micros: Option<i64> = row.try_get(column).map_err(sql_failed)?;
            Ok(micros.map(Timestamp::from_micros))
        }

        fn models(row: &$row) -> Result<ModelPair> {
            let models: serde_json::Value = serde_json::from_str(&text(row, "models")?)
                .map_err(|e| damaged("model ids that can't be read", e))?;
            let model = |name: &str| models[name].as_str().unwrap_or_default().to_owned();
            Ok(ModelPair {
                dense: model("dense"),
                sparse: model("sparse"),
            })
        }

        fn corpus_entry(row: &$row) -> Result<CorpusEntry> {
            let models = models(row)?;
            Ok(CorpusEntry {
                corpus: stored_corpus(&text(row, "corpus")?)?,
                documents: unsigned(row, "documents")?,
                chunks: unsigned(row, "chunks")?,
                generation: small(row, "generation")?,
                dense_model: models.dense,
                sparse_model: models.sparse,
            })
        }

        fn document_entry(row: &$row) -> Result<DocumentEntry> {
            Ok(DocumentEntry {
                document_id: stored_id(&text(row, "document_id")?)?,
                sequence: unsigned(row, "sequence")?,
                live: unsigned(row, "live")?,
                chunks: small(row, "chunks")?,
                generation: small(row, "generation")?,
                updated_at: time(row, "updated_at")?.unwrap_or(Timestamp::from_micros(0)),
                expires_at: time(row, "expires_at")?,
                metadata: metadata_json::from_json(&text(row, "metadata")?)?,
            })
        }

        fn document_row(row: &$row) -> Result<DocumentRow> {
            let result: Option<String> = row.try_get("result").map_err(sql_failed)?;
            Ok(DocumentRow {
                sequence: unsigned(row, "sequence")?,
                claimed: unsigned(row, "claimed")?,
                live: unsigned(row, "live")?,
                hashes: Hashes {
                    content: text(row, "content_hash")?,
                    metadata: text(row, "metadata_hash")?,
                    pipeline: text(row, "pipeline_hash")?,
                },
                chunks: small(row, "chunks")?,
                deleted: unsigned(row, "deleted")? != 0,
                expires_at: time(row, "expires_at")?,
                metadata: metadata_json::from_json(&text(row, "metadata")?)?,
                result: result.as_deref().map(result_json::from_json).transpose()?,
            })
        }
    };
}

pub(super) use registry_rows;
