//! `rag.admin.audit`: pages of tracked retrievals with all that is kept of them. For operators: it says who asked what.

use std::sync::Arc;

use super::responder::Call;
use super::subjects;
use crate::error::Result;
use crate::model::{AdminAct, RecordPosition};
use crate::spi::{RetentionRegistry, RetrievalTracker};
use crate::wire::{AuditQuestion, audit_record, decode_audit, encode_rows, record_cursor, v1};

/// Answers audit requests.
#[derive(Debug, Clone)]
pub struct AuditDesk {
    tracker: Arc<dyn RetrievalTracker>,
    /// Reading is an act too.
    acts: Arc<dyn RetentionRegistry>,
}

impl AuditDesk {
    /// A desk over a tracker.
    pub fn new(tracker: Arc<dyn RetrievalTracker>, acts: Arc<dyn RetentionRegistry>) -> Self {
        Self { tracker, acts }
    }

    /// Puts an export on record, with its first page.
    async fn recorded(&self, call: &Call, question: &AuditQuestion) -> Result<()> {
        if question.after.is_some() {
            return Ok(());
        }
        let corpus = question.corpus.as_ref();
        let (since, until) = question.window.bounds();
        self.acts
            .record_act(&AdminAct {
                action: "audit.export".to_owned(),
                actor: call.actor().to_owned(),
                tenant: question.tenant.clone(),
                corpus: corpus.map_or(String::new(), |corpus| corpus.as_str().to_owned()),
                details: serde_json::json!({ "since": since, "until": until }).to_string(),
            })
            .await
    }

    pub(super) async fn answer(&self, call: &Call) -> Result<Vec<u8>> {
        let question = decode_audit(&call.body, call.encoding)?;
        let tenant = subjects::named_by_operator(&question.tenant)?;
        let _place = call.admitted()?;
        self.recorded(call, &question).await?;
        // Asked first: what is stored while the page is read is then not taken for late.
        let now = self.tracker.now().await?;
        let (corpus, window) = (question.corpus.as_ref(), question.window);
        let mut records = self
            .tracker
            .records(&tenant, corpus, window, question.after, question.size + 1)
            .await?;
        let more = records.len() > question.size as usize;
        records.truncate(question.size as usize);
        tracing::info!(
            tenant = tenant.as_str(),
            records = records.len(),
            "retrievals read for audit"
        );
        encode_rows(&records, call.encoding, call.max_reply, |rows, cut| {
            let last = rows.last().filter(|_| more || cut);
            let next = last.map(|record| record_cursor(RecordPosition::of(record)));
            v1::AuditResponse {
                records: rows.iter().map(audit_record).collect(),
                next_cursor: next.unwrap_or_default(),
                database_time: Some(now.into()),
            }
        })
    }
}
