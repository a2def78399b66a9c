//! Arguments of `ragbus feedback`.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(super) struct FeedbackArgs {
    /// The `retrievalId` of the reply.
    #[arg(value_name = "RETRIEVAL_ID")]
    pub retrieval_id: String,
    /// A document of that reply.
    #[arg(value_name = "DOCUMENT_ID")]
    pub document_id: String,
    /// The judgement.
    #[arg(value_name = "OUTCOME", ignore_case = true)]
    pub outcome: Judgement,
    /// The tenant.
    #[arg(long, value_name = "T")]
    pub tenant: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// As on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Judgement {
    /// Of no use.
    NotRelevant,
    /// Of some use.
    PartiallyRelevant,
    /// Of use.
    Relevant,
    /// Just what was needed.
    HighlyRelevant,
}
