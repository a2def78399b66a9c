//! Rows of the tracker's tables as values, for both SQL databases: only the driver's row type differs.
//!
//! Must not know which statement a row came from.

/// Readers of `$row`. What they name is imported by [`sql_tracker!`](super::tracker_statements).
macro_rules! tracker_readers {
    ($row:ty) => {
        fn signed(row: &$row, column: &str) -> Result<i64> {
            row.try_get(column).map_err(sql_failed)
        }

        fn unsigned(row: &$row, column: &str) -> Result<u64> {
            u64::try_from(signed(row, column)?).map_err(|_| damaged())
        }

        fn small(row: &$row, column: &str) -> Result<u32> {
            u32::try_from(signed(row, column)?).map_err(|_| damaged())
        }

        fn text(row: &$row, column: &str) -> Result<String> {
            row.try_get(column).map_err(sql_failed)
        }

        fn time(row: &$row, column: &str) -> Result<Timestamp> {
            signed(row, column).map(Timestamp::from_micros)
        }

        fn bits(row: &$row, column: &str) -> Result<u128> {
            let id: Uuid = row.try_get(column).map_err(sql_failed)?;
            Ok(id.as_u128())
        }

        fn retrieval_id(row: &$row) -> Result<RetrievalId> {
            bits(row, "retrieval_id").map(RetrievalId::from_u128)
        }

        fn document_id(row: &$row) -> Result<DocumentId> {
            DocumentId::new(&text(row, "document_id")?).map_err(|_| damaged())
        }

        fn corpus_name(row: &$row) -> Result<CorpusName> {
            CorpusName::new(&text(row, "corpus")?).map_err(|_| damaged())
        }

        /// A value of a closed set by its name.
        fn named<T>(row: &$row, column: &str, parse: fn(&str) -> Option<T>) -> Result<T> {
            parse(&text(row, column)?).ok_or_else(damaged)
        }

        fn query(row: &$row) -> Result<TrackedQuery> {
            let query = text(row, "query")?;
            let hashed = signed(row, "query_hashed")? != 0;
            Ok(if hashed {
                TrackedQuery::Hash(query)
            } else {
                TrackedQuery::Text(query)
            })
        }

        fn end(row: &$row) -> Result<TrackedEnd> {
            let outcome = text(row, "outcome")?;
            if outcome == FAILED {
                return named(row, "error", ErrorKind::parse).map(TrackedEnd::Failed);
            }
            let outcome = Outcome::parse(&outcome).ok_or_else(damaged)?;
            Ok(TrackedEnd::Answered(outcome))
        }

        fn degraded(row: &$row) -> Result<Vec<StageName>> {
            let names = text(row, "degraded")?;
            let names = names.split(',').filter(|name| !name.is_empty());
            names
                .map(|name| StageName::parse(name).ok_or_else(damaged))
                .collect()
        }

        /// A record whose chunks are still to come.
        fn record(tenant: &TenantId, row: &$row) -> Result<RetrievalRecord> {
            let (models, calibration) = json::models_from_json(&text(row, "models")?)?;
            Ok(RetrievalRecord {
                id: retrieval_id(row)?,
                corpus: CorpusRef::new(tenant.clone(), corpus_name(row)?),
                at: time(row, "asked_at")?,
                request_id: text(row, "request_id")?,
                worker: text(row, "worker")?,
                actor: text(row, "actor")?,
                purpose: text(row, "purpose")?,
                query: query(row)?,
                queries: json::queries_from_json(&text(row, "queries")?)?,
                limit: small(row, "result_limit")?,
                options: text(row, "options")?,
                end: end(row)?,
                quality: RetrievalQuality {
                    correct: small(row, "correct")?,
                    ambiguous: small(row, "ambiguous")?,
                    incorrect: small(row, "incorrect")?,
                    corrected: signed(row, "corrected")? != 0,
                },
                stages: json::stages_from_json(&text(row, "stages")?)?,
                degraded: degraded(row)?,
                warnings: json::texts_from_json(&text(row, "warnings")?)?,
                models,
                calibration,
                duration: Duration::from_micros(unsigned(row, "duration_us")?),
                chunks: Vec::new(),
            })
        }

        fn chunk(row: &$row) -> Result<TrackedChunk> {
            let score: Option<f64> = row.try_get("score").map_err(sql_failed)?;
            Ok(TrackedChunk {
                chunk_id: ChunkId(bits(row, "chunk_id")?),
                content_hash: text(row, "content_hash")?,
                document_id: document_id(row)?,
                document_sequence: unsigned(row, "document_sequence")?,
                ordinal: small(row, "ordinal")?,
                rank: small(row, "rank")?,
                // Every score was an f32 before it was stored.
                relevance: score.map_or(f32::NAN, |score| score as f32),
                score_kind: named(row, "score_kind", ScoreKind::parse)?,
                grade: named(row, "grade", Grade::parse)?,
                signals: json::signals_from_json(&text(row, "signals")?)?,
                fate: named(row, "fate", ChunkFate::parse)?,
            })
        }

        fn feedback_of_row(row: &$row) -> Result<Feedback> {
            Ok(Feedback {
                retrieval_id: retrieval_id(row)?,
                document_id: document_id(row)?,
                outcome: named(row, "outcome", FeedbackOutcome::parse)?,
                actor: text(row, "actor")?,
                at: time(row, "given_at")?,
            })
        }

        fn judged(row: &$row) -> Result<JudgedQuery> {
            Ok(JudgedQuery {
                corpus: corpus_name(row)?,
                retrieved_at: time(row, "retrieved_at")?,
                query: query(row)?,
                feedback: feedback_of_row(row)?,
            })
        }
    };
}

pub(super) use tracker_readers;
