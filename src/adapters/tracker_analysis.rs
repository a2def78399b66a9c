//! The analysis over an SQL database, bound once for each; the databases do the counting.
//!
//! `sql_analysis!` implements the port beside [`sql_tracker!`](super::tracker_statements), in the same module: it uses what that
//! imports and defines. Must not know how a database is opened.

/// Implements [`RetrievalAnalysis`](crate::spi::RetrievalAnalysis) for `$tracker`.
macro_rules! sql_analysis {
    ($tracker:ty, $row:ty) => {
        use crate::adapters::tracker_analysis_sql as analysis_sql;
        use crate::model::{
            DocumentSelection, DocumentStats, FeedbackCounts, LatencyStats, MeanScores,
            QueryDocuments, QuerySelection, QueryStats, TrackingTotals,
        };
        use crate::spi::RetrievalAnalysis;

        /// Binds corpus and window, which every statement begins with.
        macro_rules! in_window {
            ($sql:expr, $corpus:expr, $window:expr) => {{
                let (since, until) = $window.bounds();
                sqlx::query($sql)
                    .bind($corpus.tenant.as_str())
                    .bind($corpus.corpus.as_str())
                    .bind(since)
                    .bind(until)
            }};
        }

        fn means(row: &$row) -> Result<MeanScores> {
            let mut means = MeanScores::new();
            for (kind, column) in analysis_sql::MEANS {
                let mean: Option<f64> = row.try_get(column).map_err(sql_failed)?;
                means.extend(mean.map(|mean| (kind, mean)));
            }
            Ok(means)
        }

        fn feedback_counts(row: &$row) -> Result<FeedbackCounts> {
            Ok(FeedbackCounts {
                not_relevant: unsigned(row, "not_relevant")?,
                partially_relevant: unsigned(row, "partially_relevant")?,
                relevant: unsigned(row, "relevant")?,
                highly_relevant: unsigned(row, "highly_relevant")?,
            })
        }

        fn document_stats(row: &$row) -> Result<DocumentStats> {
            Ok(DocumentStats {
                document_id: document_id(row)?,
                retrievals: unsigned(row, "retrievals")?,
                first_at: time(row, "first_at")?,
                last_at: time(row, "last_at")?,
                mean_scores: means(row)?,
                feedback: feedback_counts(row)?,
            })
        }

        fn query_stats(row: &$row) -> Result<QueryStats> {
            Ok(QueryStats {
                query: query(row)?,
                retrievals: unsigned(row, "retrievals")?,
                failed: unsigned(row, "failed")?,
                zero_hits: unsigned(row, "zero_hits")?,
                first_at: time(row, "first_at")?,
                last_at: time(row, "last_at")?,
                mean_scores: means(row)?,
            })
        }

        fn totals(row: &$row, failures: &[$row], feedback: &$row) -> Result<TrackingTotals> {
            let mut totals = TrackingTotals {
                retrievals: unsigned(row, "retrievals")?,
                failed: unsigned(row, "failed")?,
                degraded: unsigned(row, "degraded")?,
                returned: unsigned(row, "returned")?,
                dropped: unsigned(row, "dropped")?,
                feedback: feedback_counts(feedback)?,
                ..TrackingTotals::default()
            };
            if totals.retrievals > 0 {
                totals.first_at = Some(time(row, "first_at")?);
                totals.last_at = Some(time(row, "last_at")?);
            }
            for failure in failures {
                let kind = named(failure, "error", ErrorKind::parse)?;
                totals.failures.insert(kind, unsigned(failure, "failed")?);
            }
            for outcome in Outcome::ALL {
                let answered = unsigned(row, &outcome.name().to_ascii_lowercase())?;
                totals
                    .outcomes
                    .extend((answered > 0).then_some((*outcome, answered)));
            }
            for stage in StageName::ORDER {
                let degraded = unsigned(row, stage.name())?;
                totals
                    .degraded_stages
                    .extend((degraded > 0).then_some((stage, degraded)));
            }
            Ok(totals)
        }

        fn latency(row: &$row) -> Result<LatencyStats> {
            let stage = text(row, "stage")?;
            let whole = stage.is_empty();
            let stage = (!whole).then(|| StageName::parse(&stage).ok_or_else(damaged));
            Ok(LatencyStats {
                stage: stage.transpose()?,
                samples: unsigned(row, "samples")?,
                p50: unsigned(row, "p50")?,
                p90: unsigned(row, "p90")?,
                p95: unsigned(row, "p95")?,
                p99: unsigned(row, "p99")?,
                max: unsigned(row, "longest")?,
            })
        }

        #[async_trait]
        impl RetrievalAnalysis for $tracker {
            async fn document_stats(
                &self,
                corpus: &CorpusRef,
                window: TimeWindow,
                selection: DocumentSelection,
                limit: u32,
            ) -> Result<Vec<DocumentStats>> {
                let least = selection.thresholds();
                let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                let mut snapshot = self.snapshot().await?;
                let rows = in_window!(analysis_sql::DOCUMENT_STATS, corpus, window)
                    .bind(whole(least.min_retrievals))
                    .bind(whole(least.min_feedback))
                    .bind(least.min_bad_share)
                    .bind(i64::from(limit))
                    .fetch_all(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                rows.iter().map(document_stats).collect()
            }

            async fn query_stats(
                &self,
                corpus: &CorpusRef,
                window: TimeWindow,
                selection: QuerySelection,
                limit: u32,
            ) -> Result<Vec<QueryStats>> {
                let statement = match selection {
                    QuerySelection::All => analysis_sql::QUERIES,
                    QuerySelection::ZeroHit => analysis_sql::ZERO_HIT_QUERIES,
                    QuerySelection::LowRelevance { .. } => analysis_sql::LOW_QUERIES,
                };
                let mut query = in_window!(statement, corpus, window).bind(i64::from(limit));
                if let QuerySelection::LowRelevance { kind, below } = selection {
                    query = query.bind(kind.name()).bind(below);
                }
                let mut snapshot = self.snapshot().await?;
                let rows = query.fetch_all(&mut *snapshot).await.map_err(sql_failed)?;
                rows.iter().map(query_stats).collect()
            }

            async fn query_documents(
                &self,
                corpus: &CorpusRef,
                window: TimeWindow,
                limit: u32,
            ) -> Result<Vec<QueryDocuments>> {
                let mut snapshot = self.snapshot().await?;
                let rows = in_window!(analysis_sql::QUERY_DOCUMENTS, corpus, window)
                    .bind(i64::from(limit))
                    .fetch_all(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                let mut all: Vec<QueryDocuments> = Vec::new();
                for row in &rows {
                    let query = query(row)?;
                    // Rows of one question stand beside each other.
                    if all.last().is_none_or(|last| last.query != query) {
                        let retrievals = unsigned(row, "retrievals")?;
                        let documents = std::collections::BTreeSet::new();
                        all.push(QueryDocuments {
                            query,
                            retrievals,
                            documents,
                        });
                    }
                    if let Some(last) = all.last_mut() {
                        last.documents.insert(document_id(row)?);
                    }
                }
                Ok(all)
            }

            async fn totals(
                &self,
                corpus: &CorpusRef,
                window: TimeWindow,
            ) -> Result<TrackingTotals> {
                let mut snapshot = self.snapshot().await?;
                let row = in_window!(analysis_sql::TOTALS, corpus, window)
                    .fetch_one(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                let failures = in_window!(analysis_sql::FAILURES, corpus, window)
                    .fetch_all(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                let feedback = in_window!(analysis_sql::FEEDBACK_TOTALS, corpus, window)
                    .fetch_one(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                totals(&row, &failures, &feedback)
            }

            async fn latencies(
                &self,
                corpus: &CorpusRef,
                window: TimeWindow,
            ) -> Result<Vec<LatencyStats>> {
                let mut snapshot = self.snapshot().await?;
                let rows = in_window!(analysis_sql::LATENCIES, corpus, window)
                    .fetch_all(&mut *snapshot)
                    .await
                    .map_err(sql_failed)?;
                let mut all = rows.iter().map(latency).collect::<Result<Vec<_>>>()?;
                all.sort_by_key(|stats| stats.stage);
                Ok(all)
            }
        }
    };
}

pub(super) use sql_analysis;
