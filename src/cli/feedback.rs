//! `ragbus feedback`.

use std::process::ExitCode;

use super::args_feedback::{FeedbackArgs, Judgement};
use super::context;
use super::output;
use crate::config::Config;
use crate::error::Result;
use crate::transport::nats::Reply;
use crate::wire::v1::{self, feedback_outcome::Kind};

pub(super) async fn run(config: &Config, args: &FeedbackArgs) -> Result<ExitCode> {
    let tenant = context::tenant(&args.tenant)?;
    let (client, connection) = context::client(config, &tenant).await?;
    let outcome = match args.outcome {
        Judgement::NotRelevant => Kind::NotRelevant,
        Judgement::PartiallyRelevant => Kind::PartiallyRelevant,
        Judgement::Relevant => Kind::Relevant,
        Judgement::HighlyRelevant => Kind::HighlyRelevant,
    };
    let request = v1::FeedbackRequest {
        retrieval_id: args.retrieval_id.clone(),
        document_id: args.document_id.clone(),
        outcome: outcome.into(),
    };
    let asked = client.request("feedback", &request, context::CALL).await;
    connection.close().await;
    let response: v1::FeedbackResponse = match asked? {
        Reply::Answer(response) => response,
        Reply::Refused(error) => return Err(context::refused(&error)),
    };
    if args.json {
        output::json(&response)?;
    } else {
        output::line("recorded")?;
    }
    Ok(ExitCode::SUCCESS)
}
