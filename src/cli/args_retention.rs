//! Arguments of the commands about keeping and forgetting.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(super) struct PurgeArgs {
    /// Retrievals asked so long ago or earlier: whole days or weeks.
    #[arg(long, value_name = "DAYS", required = true)]
    pub older_than: String,
    /// Only this tenant's; without it, everybody's.
    #[arg(long, value_name = "T")]
    pub tenant: Option<String>,
    /// Only this corpus of the tenant.
    #[arg(long, value_name = "C", requires = "tenant")]
    pub corpus: Option<String>,
    /// Only tell what would go.
    #[arg(long)]
    pub dry_run: bool,
    /// Past retention.max_share and retention.min_days. Legal holds count all the same.
    #[arg(long)]
    pub force: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct HoldArgs {
    #[command(subcommand)]
    pub command: HoldCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum HoldCommand {
    /// Keep a tenant's data, a corpus or a document from purge, expiry and forgetting.
    Add(HoldAddArgs),
    /// List the holds in force.
    Ls(HoldLsArgs),
    /// End a hold.
    Release(HoldReleaseArgs),
}

#[derive(Debug, Args)]
pub(super) struct HoldAddArgs {
    /// The tenant.
    #[arg(long, value_name = "T")]
    pub tenant: String,
    /// Only this corpus.
    #[arg(long, value_name = "C")]
    pub corpus: Option<String>,
    /// Only this document of the corpus.
    #[arg(long, value_name = "ID", requires = "corpus")]
    pub document: Option<String>,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct HoldLsArgs {
    /// The tenant.
    #[arg(long, value_name = "T")]
    pub tenant: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct HoldReleaseArgs {
    /// The hold, as `hold ls` names it.
    pub id: String,
    /// The tenant.
    #[arg(long, value_name = "T")]
    pub tenant: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    /// The tenant.
    #[arg(long, value_name = "T")]
    pub tenant: String,
    /// All of it goes, for good.
    #[arg(long)]
    pub yes: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
