//! `rag.admin.<verb>`: operators' requests. The tenant is named in the body, because an operator may name any; replies go to
//! operators' addresses only.

use async_trait::async_trait;

use super::responder::{Call, Caller, Endpoint};
use super::subjects;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{ConsistencyParts, CorpusCheck};
use crate::model::{CorpusName, CorpusRef};
use crate::wire::{decode, encode, v1};

/// The operators' endpoint.
#[derive(Debug)]
pub struct AdminEndpoint {
    consistency: ConsistencyParts,
}

impl AdminEndpoint {
    /// An endpoint over these parts.
    pub fn new(consistency: ConsistencyParts) -> Self {
        Self { consistency }
    }

    async fn verify(&self, call: &Call) -> Result<Vec<u8>> {
        let request: v1::VerifyRequest = decode(&call.body, call.encoding)?;
        let tenant = subjects::named_by_operator(&request.tenant)?;
        let corpus = CorpusRef::new(tenant, CorpusName::new(&request.corpus)?);
        let _place = call.admitted()?;
        let check = self.consistency.verify(&corpus, request.repair).await?;
        tracing::info!(
            corpus = corpus.corpus.as_str(),
            clean = check.is_clean(),
            removed = check.removed,
            damaged = check.damaged_documents,
            "registry and store compared"
        );
        Ok(encode(&verified(check), call.encoding))
    }
}

fn verified(check: CorpusCheck) -> v1::VerifyResponse {
    let damaged = check.damaged.iter().map(|document| v1::DamagedDocument {
        document_id: document.document_id.as_str().to_owned(),
        expected_chunks: document.expected,
        found_chunks: document.found,
    });
    v1::VerifyResponse {
        clean: check.is_clean(),
        documents: check.documents,
        registry_chunks: check.registry_chunks,
        stored_points: check.stored_points,
        damaged: damaged.collect(),
        damaged_documents: check.damaged_documents,
        removed: check.removed,
    }
}

#[async_trait]
impl Endpoint for AdminEndpoint {
    fn verb(&self) -> &'static str {
        "admin"
    }

    fn caller(&self) -> Caller {
        Caller::Operator
    }

    async fn answer(&self, call: &Call) -> Result<Vec<u8>> {
        match call.last_token.as_str() {
            "verify" => self.verify(call).await,
            _ => Err(Error::new(
                ErrorKind::NotFound,
                "there is no such request; rag.admin.verify is one",
            )),
        }
    }
}
