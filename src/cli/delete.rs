//! `ragbus delete`.

use std::process::ExitCode;
use std::time::Instant;

use super::args::DeleteArgs;
use super::context;
use super::files::Source;
use super::ingest::{Report, carry_out};
use crate::config::Config;
use crate::error::Result;
use crate::wire::v1::{self, ingest_request::Operation};

pub(super) async fn run(config: &Config, args: &DeleteArgs) -> Result<ExitCode> {
    let tenant = context::tenant(&args.target.tenant)?;
    let corpus = context::corpus(&args.target)?.as_str().to_owned();
    let job = |operation| v1::IngestRequest {
        corpus: corpus.clone(),
        operation: Some(operation),
    };
    let sources: Vec<Source> = if args.whole_corpus {
        let operation = Operation::DeleteCorpus(v1::DeleteCorpus {});
        vec![Source {
            name: format!("corpus {corpus}"),
            job: Ok(job(operation)),
        }]
    } else {
        let delete = |id: &String| {
            Operation::DeleteDocument(v1::DeleteDocument {
                document_id: id.clone(),
            })
        };
        let source = |id: &String| Source {
            name: id.clone(),
            job: Ok(job(delete(id))),
        };
        args.documents.iter().map(source).collect()
    };
    let (client, connection) = context::client(config, &tenant).await?;
    let started = Instant::now();
    let mut report = Report::new(sources.len(), args.json);
    carry_out(&client, sources, &mut report).await?;
    connection.close().await;
    report.finish(started.elapsed())
}
