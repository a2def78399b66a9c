//! `ragbus qrels export`: users' judgements as a folder that `ragbus eval` and `ragbus calibrate` read.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::args_tracking::{QrelsArgs, QrelsCommand, QrelsExportArgs};
use super::{context, output};
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::nats::{Client, Reply};
use crate::wire::v1::{self, judgement_outcome::Kind, stats_request::View};

const PAGE: i32 = 1_000;
/// Digits of a topic's name: enough that no two questions meet.
const TOPIC_DIGITS: usize = 24;

/// When a judgement was given, and its gain.
type Given = (Option<(i64, i32)>, u32);

/// Judgements by question and document; the last one on a pair counts.
#[derive(Debug, Default)]
struct Judged {
    gains: BTreeMap<String, BTreeMap<String, Given>>,
    judgements: u64,
    /// On questions that are kept as hashes.
    hashed: u64,
    /// On documents whose ids the columns of a line can't hold.
    unwritable: u64,
}

impl Judged {
    fn add(&mut self, judgement: v1::Judgement) {
        self.judgements += 1;
        let gain = match judgement.outcome() {
            Kind::Unspecified | Kind::NotRelevant => 0,
            Kind::PartiallyRelevant => 1,
            Kind::Relevant => 2,
            Kind::HighlyRelevant => 3,
        };
        let query = judgement.query.unwrap_or_default();
        if query.hashed {
            self.hashed += 1;
            return;
        }
        // Readers trim columns: an id with space around it would become another one.
        if judgement.document_id.trim() != judgement.document_id {
            self.unwritable += 1;
            return;
        }
        let given = judgement.judged_at.map(|at| (at.seconds, at.nanos));
        let documents = self.gains.entry(query.text).or_default();
        let kept = documents.entry(judgement.document_id).or_default();
        // Pages come by the retrieval's time: of judgements given at once, the one on the later retrieval counts.
        if given >= kept.0 {
            *kept = (given, gain);
        }
    }

    fn pairs(&self) -> usize {
        self.gains.values().map(BTreeMap::len).sum()
    }

    /// Lines `topic 0 document gain`, apart by tabs because ids may hold spaces.
    fn qrels(&self) -> String {
        let mut text = String::new();
        for (query, documents) in &self.gains {
            let topic = topic(query);
            for (document, (_, gain)) in documents {
                // Writing into a string can't fail.
                let _ = writeln!(text, "{topic}\t0\t{document}\t{gain}");
            }
        }
        text
    }

    fn queries(&self) -> String {
        let line = |query: &String| format!("{}\n", json!({ "_id": topic(query), "text": query }));
        self.gains.keys().map(line).collect()
    }
}

/// A question's name: the same in every export, so that runs over time can be compared.
fn topic(query: &str) -> String {
    let digest = Sha256::digest(query.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("q{}", &hex[..TOPIC_DIGITS])
}

pub(super) async fn run(config: &Config, args: &QrelsArgs) -> Result<ExitCode> {
    let QrelsCommand::Export(args) = &args.command;
    let tenant = context::tenant(&args.target.tenant)?;
    let corpus = context::corpus(&args.target)?;
    let (client, connection) = context::client(config, &tenant).await?;
    let judged = judged(&client, args, corpus.as_str()).await;
    connection.close().await;
    let judged = judged?;
    if judged.gains.is_empty() {
        let message = format!(
            "there is no judgement to export ({} on hashed questions)",
            judged.hashed
        );
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    write(&args.out, &judged)?;
    tell(args, &judged)?;
    Ok(ExitCode::SUCCESS)
}

async fn judged(client: &Client, args: &QrelsExportArgs, corpus: &str) -> Result<Judged> {
    let mut judged = Judged::default();
    let mut cursor = String::new();
    loop {
        let request = v1::StatsRequest {
            corpus: corpus.to_owned(),
            since: args.since.map(Into::into),
            until: args.until.map(Into::into),
            view: Some(View::Judgements(v1::JudgementsView {
                page_size: Some(PAGE),
                cursor,
            })),
        };
        let reply: Reply<v1::StatsResponse> =
            client.request("stats", &request, context::ANALYSIS).await?;
        let response = match reply {
            Reply::Answer(response) => response,
            Reply::Refused(error) => return Err(context::refused(&error)),
        };
        response
            .judgements
            .into_iter()
            .for_each(|one| judged.add(one));
        if response.next_cursor.is_empty() {
            return Ok(judged);
        }
        cursor = response.next_cursor;
    }
}

fn write(folder: &Path, judged: &Judged) -> Result<()> {
    let unwritable = |e| Error::invalid_field("--out", "can't be written").caused_by(e);
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    std::fs::write(folder.join("qrels.tsv"), judged.qrels()).map_err(unwritable)?;
    std::fs::write(folder.join("queries.jsonl"), judged.queries()).map_err(unwritable)
}

fn tell(args: &QrelsExportArgs, judged: &Judged) -> Result<()> {
    let (topics, pairs) = (judged.gains.len(), judged.pairs());
    if args.json {
        return output::json(&json!({
            "topics": topics, "pairs": pairs, "judgements": judged.judgements,
            "skippedHashed": judged.hashed, "skippedDocumentIds": judged.unwritable,
        }));
    }
    let folder = args.out.display();
    output::line(&format!(
        "{folder}: {topics} questions, {pairs} judged pairs of {} judgements",
        judged.judgements
    ))?;
    if judged.hashed > 0 {
        output::line(&format!(
            "skipped {} judgements: their questions are kept as hashes",
            judged.hashed
        ))?;
    }
    if judged.unwritable > 0 {
        output::line(&format!(
            "skipped {} judgements: space at an end of the document's id",
            judged.unwritable
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::{self, Judgements};
    use crate::wire::WireTimestamp;

    fn judgement(query: &str, document: &str, outcome: Kind, seconds: i64) -> v1::Judgement {
        v1::Judgement {
            query: Some(v1::AskedQuery {
                text: query.into(),
                hashed: query == "#",
            }),
            document_id: document.into(),
            outcome: outcome.into(),
            judged_at: Some(WireTimestamp { seconds, nanos: 0 }),
            ..v1::Judgement::default()
        }
    }

    #[test]
    fn the_last_judgement_counts_and_readers_read_it() {
        let mut judged = Judged::default();
        for one in [
            judgement("why\tso \"odd\"?\n", "a b", Kind::NotRelevant, 9),
            judgement("why\tso \"odd\"?\n", "a b", Kind::HighlyRelevant, 5),
            judgement("why\tso \"odd\"?\n", "c", Kind::PartiallyRelevant, 5),
            judgement("why\tso \"odd\"?\n", "c", Kind::Relevant, 5),
            judgement("plain", "c", Kind::HighlyRelevant, -5),
            judgement("#", "c", Kind::Relevant, 1),
            judgement("plain", " c", Kind::Relevant, 1),
        ] {
            judged.add(one);
        }
        assert_eq!(
            (judged.judgements, judged.hashed, judged.unwritable),
            (7, 1, 1)
        );
        let qrels = Judgements::parse("qrels.tsv", &judged.qrels()).expect("read");
        let lines = judged.queries();
        let read = (1..).zip(lines.lines());
        let read = read.map(|(n, line)| evaluation::question("queries", n, line).expect("read"));
        let topics: BTreeMap<String, String> = read.map(|q| (q.text, q.id)).collect();
        let grade = |query: &str, document| qrels.grade(&topics[query], document);
        assert_eq!(grade("why\tso \"odd\"?\n", "a b"), Some(0));
        assert_eq!(grade("why\tso \"odd\"?\n", "c"), Some(2));
        assert_eq!(grade("plain", "c"), Some(3));
        assert_eq!((qrels.pairs(), judged.pairs(), topics.len()), (3, 3, 2));
    }
}
