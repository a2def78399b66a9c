//! The analysis in memory, in the plainest way: what the SQL of the others is compared with.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{MemoryTracker, Row};
use crate::error::Result;
use crate::model::{
    CorpusRef, DocumentId, DocumentSelection, DocumentStats, FeedbackCounts, LatencyStats,
    MeanScores, Outcome, QueryDocuments, QuerySelection, QueryStats, ScoreKind, StageName,
    TimeWindow, TrackedChunk, TrackedEnd, TrackedQuery, TrackingTotals,
};
use crate::spi::RetrievalAnalysis;

fn means(chunks: &[&TrackedChunk]) -> MeanScores {
    let mut by_kind: BTreeMap<ScoreKind, Vec<f64>> = BTreeMap::new();
    for chunk in chunks.iter().filter(|c| c.relevance.is_finite()) {
        let scores = by_kind.entry(chunk.score_kind).or_default();
        scores.push(f64::from(chunk.relevance));
    }
    let mean = |scores: Vec<f64>| scores.iter().sum::<f64>() / scores.len() as f64;
    by_kind.into_iter().map(|(k, s)| (k, mean(s))).collect()
}

fn is_zero_hit(row: &Row) -> bool {
    matches!(
        row.record.end,
        TrackedEnd::Answered(Outcome::NoMatch | Outcome::NoRelevantContext)
    )
}

fn is_failed(row: &Row) -> bool {
    matches!(row.record.end, TrackedEnd::Failed(_))
}

/// The value at the nearest rank.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent).div_ceil(100) - 1]
}

fn latency(stage: Option<StageName>, mut micros: Vec<u64>) -> Option<LatencyStats> {
    micros.sort_unstable();
    Some(LatencyStats {
        stage,
        samples: micros.len() as u64,
        max: *micros.last()?,
        p50: percentile(&micros, 50),
        p90: percentile(&micros, 90),
        p95: percentile(&micros, 95),
        p99: percentile(&micros, 99),
    })
}

fn document_of(id: DocumentId, rows: &[Row]) -> Option<DocumentStats> {
    let shown = |row: &&Row| {
        let documents = row.record.documents();
        documents.iter().any(|chunk| chunk.document_id == id)
    };
    let with: Vec<&Row> = rows.iter().filter(shown).collect();
    let best = with.iter().flat_map(|row| row.record.documents());
    let best: Vec<&TrackedChunk> = best.filter(|chunk| chunk.document_id == id).collect();
    let mut feedback = FeedbackCounts::default();
    for judgement in with.iter().filter_map(|row| row.feedback.get(&id)) {
        feedback.count(judgement.outcome);
    }
    Some(DocumentStats {
        retrievals: with.len() as u64,
        first_at: with.first()?.record.at,
        last_at: with.last()?.record.at,
        mean_scores: means(&best),
        feedback,
        document_id: id,
    })
}

fn query_of(query: &TrackedQuery, rows: &[&Row]) -> Option<QueryStats> {
    let first = rows.iter().filter_map(|row| row.record.returned().next());
    let first: Vec<&TrackedChunk> = first.collect();
    Some(QueryStats {
        query: query.clone(),
        retrievals: rows.len() as u64,
        failed: rows.iter().filter(|row| is_failed(row)).count() as u64,
        zero_hits: rows.iter().filter(|row| is_zero_hit(row)).count() as u64,
        first_at: rows.first()?.record.at,
        last_at: rows.last()?.record.at,
        mean_scores: means(&first),
    })
}

/// Rows by question; questions in the order of SQL: by text, then texts before hashes.
fn by_query<'a>(rows: &'a [Row]) -> Vec<(TrackedQuery, Vec<&'a Row>)> {
    let mut found: BTreeMap<(&str, bool), Vec<&'a Row>> = BTreeMap::new();
    for row in rows {
        let query = &row.record.query;
        let key = (query.as_str(), query.is_hash());
        found.entry(key).or_default().push(row);
    }
    let named = |rows: Vec<&'a Row>| (rows[0].record.query.clone(), rows);
    found.into_values().map(named).collect()
}

#[async_trait]
impl RetrievalAnalysis for MemoryTracker {
    async fn document_stats(
        &self,
        corpus: &CorpusRef,
        window: TimeWindow,
        selection: DocumentSelection,
        limit: u32,
    ) -> Result<Vec<DocumentStats>> {
        let rows = self.in_window(&corpus.tenant, Some(&corpus.corpus), window);
        let shown = rows.iter().flat_map(|row| row.record.documents());
        let mut ids: Vec<DocumentId> = shown.map(|chunk| chunk.document_id.clone()).collect();
        ids.sort();
        ids.dedup();
        let stats = ids.into_iter().filter_map(|id| document_of(id, &rows));
        let mut stats: Vec<DocumentStats> = stats
            .filter(|s| selection.accepts(s.retrievals, &s.feedback))
            .collect();
        stats.sort_by_key(|s| std::cmp::Reverse(s.retrievals));
        stats.truncate(limit as usize);
        Ok(stats)
    }

    async fn query_stats(
        &self,
        corpus: &CorpusRef,
        window: TimeWindow,
        selection: QuerySelection,
        limit: u32,
    ) -> Result<Vec<QueryStats>> {
        let rows = self.in_window(&corpus.tenant, Some(&corpus.corpus), window);
        let queries = by_query(&rows);
        let stats = queries.iter().filter_map(|(q, rows)| query_of(q, rows));
        let mut stats: Vec<QueryStats> = stats.collect();
        match selection {
            QuerySelection::All => stats.sort_by_key(|s| std::cmp::Reverse(s.retrievals)),
            QuerySelection::ZeroHit => {
                stats.retain(|s| s.zero_hits > 0);
                stats.sort_by_key(|s| std::cmp::Reverse(s.zero_hits));
            }
            QuerySelection::LowRelevance { kind, below } => {
                let mean = |s: &QueryStats| s.mean_scores.get(&kind).copied();
                stats.retain(|s| mean(s).is_some_and(|mean| mean < below));
                let order = |s: &QueryStats| mean(s).unwrap_or_default();
                stats.sort_by(|a, b| order(a).total_cmp(&order(b)));
            }
        }
        stats.truncate(limit as usize);
        Ok(stats)
    }

    async fn query_documents(
        &self,
        corpus: &CorpusRef,
        window: TimeWindow,
        limit: u32,
    ) -> Result<Vec<QueryDocuments>> {
        let rows = self.in_window(&corpus.tenant, Some(&corpus.corpus), window);
        let of = |(query, rows): (TrackedQuery, Vec<&Row>)| {
            let shown = rows.iter().flat_map(|row| row.record.documents());
            QueryDocuments {
                query,
                retrievals: rows.len() as u64,
                documents: shown.map(|chunk| chunk.document_id.clone()).collect(),
            }
        };
        let mut all: Vec<QueryDocuments> = by_query(&rows).into_iter().map(of).collect();
        all.retain(|query| !query.documents.is_empty());
        all.sort_by_key(|query| std::cmp::Reverse(query.retrievals));
        all.truncate(limit as usize);
        Ok(all)
    }

    async fn totals(&self, corpus: &CorpusRef, window: TimeWindow) -> Result<TrackingTotals> {
        let rows = self.in_window(&corpus.tenant, Some(&corpus.corpus), window);
        let mut totals = TrackingTotals {
            retrievals: rows.len() as u64,
            first_at: rows.first().map(|row| row.record.at),
            last_at: rows.last().map(|row| row.record.at),
            ..TrackingTotals::default()
        };
        for row in &rows {
            match row.record.end {
                TrackedEnd::Answered(outcome) => *totals.outcomes.entry(outcome).or_default() += 1,
                TrackedEnd::Failed(kind) => {
                    totals.failed += 1;
                    *totals.failures.entry(kind).or_default() += 1;
                }
            }
            totals.degraded += u64::from(!row.record.degraded.is_empty());
            for stage in &row.record.degraded {
                *totals.degraded_stages.entry(*stage).or_default() += 1;
            }
            let returned = row.record.returned().count();
            totals.returned += returned as u64;
            totals.dropped += (row.record.chunks.len() - returned) as u64;
            for judgement in row.feedback.values() {
                totals.feedback.count(judgement.outcome);
            }
        }
        Ok(totals)
    }

    async fn latencies(&self, corpus: &CorpusRef, window: TimeWindow) -> Result<Vec<LatencyStats>> {
        let rows = self.in_window(&corpus.tenant, Some(&corpus.corpus), window);
        let whole = rows
            .iter()
            .map(|row| row.record.duration.as_micros() as u64);
        let mut found = vec![latency(None, whole.collect())];
        for stage in StageName::ORDER {
            let reports = rows.iter().flat_map(|row| &row.record.stages);
            let own = reports.filter(|report| report.stage == stage);
            let micros = own.map(|report| report.duration.as_micros() as u64);
            found.push(latency(Some(stage), micros.collect()));
        }
        Ok(found.into_iter().flatten().collect())
    }
}
