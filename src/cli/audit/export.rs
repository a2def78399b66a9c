//! `ragbus audit export`: asks for page after page, and writes each retrieval as a sealed line.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::super::args_tracking::AuditExportArgs;
use super::super::{context, moments};
use super::chain::{Chain, FORMAT, VERSION};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::CorpusName;
use crate::transport::nats::{Connection, Reply, ReplyRule, ask_operator, connect};
use crate::wire::{WireTimestamp, v1};

/// A page is read from a database that may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
const PAGE: i32 = 100;
const COUNT_POLICY: &str = "every retrieval of the window that the tracker held when its page was read, once, by time and id; those that failed \
    or found nothing too; feedback is not part of it";

pub(super) async fn run(config: &Config, args: &AuditExportArgs) -> Result<ExitCode> {
    let request = request(args)?;
    let nats = &config.nats;
    let inbox = ReplyRule::new(&nats.reply_prefixes).operator_inbox();
    let connection = connect(&nats.url, &nats.credentials, "ragbus-audit", &inbox, None).await?;
    let written = written(&connection, request, args.out.as_deref()).await;
    connection.close().await;
    let (count, last_hash) = written?;
    eprintln!("{count} retrievals; last hash {last_hash}: keep it apart from the file");
    Ok(ExitCode::SUCCESS)
}

fn request(args: &AuditExportArgs) -> Result<v1::AuditRequest> {
    let corpus = match args.corpus.as_deref() {
        None => String::new(),
        Some(name) => CorpusName::new(name)
            .map_err(|_| Error::invalid_field("--corpus", "must match ^[a-z0-9][a-z0-9_-]{0,62}$"))?
            .as_str()
            .to_owned(),
    };
    if args.since >= args.until {
        return Err(Error::invalid_field("--until", "must be after --since"));
    }
    Ok(v1::AuditRequest {
        tenant: context::tenant(&args.tenant)?.as_str().to_owned(),
        corpus,
        since: Some(args.since.into()),
        until: Some(args.until.into()),
        page_size: Some(PAGE),
        cursor: String::new(),
    })
}

async fn page(connection: &Connection, request: &v1::AuditRequest) -> Result<v1::AuditResponse> {
    match ask_operator(connection, "audit", request, PATIENCE).await? {
        Reply::Answer(response) => Ok(response),
        Reply::Refused(error) => Err(context::refused(&error)),
    }
}

/// The number of retrievals, and the last hash.
async fn written(
    connection: &Connection,
    mut request: v1::AuditRequest,
    path: Option<&Path>,
) -> Result<(u64, String)> {
    let mut response = page(connection, &request).await?;
    let mut target = Target::open(path)?;
    let mut chain = Chain::new();
    let header = header(&request, response.database_time);
    target.write(&chain.seal("header", &header))?;
    let mut count = 0;
    loop {
        for record in &response.records {
            target.write(&chain.seal("retrieval", &members(record)?))?;
            count += 1;
        }
        if response.next_cursor.is_empty() {
            break;
        }
        request.cursor = response.next_cursor;
        response = page(connection, &request).await?;
    }
    let end = format!("\"count\":{count},\"lastHash\":\"{}\"", chain.last());
    target.write(&chain.seal("end", &end))?;
    target.finish()?;
    Ok((count, chain.last().to_owned()))
}

/// The first line's members. Whether the window is over is for the database's clock to say.
fn header(request: &v1::AuditRequest, now: Option<WireTimestamp>) -> String {
    let micros = |time: Option<WireTimestamp>| time.and_then(WireTimestamp::to_model);
    let text =
        |time: Option<WireTimestamp>| micros(time).map_or_else(String::new, moments::rfc3339);
    let closed = micros(request.until) <= micros(now);
    if !closed {
        eprintln!("warning: --until is in the future: this export will not be complete");
    }
    let header = json!({
        "format": FORMAT,
        "version": VERSION,
        "exporter": format!("ragbus {}", env!("CARGO_PKG_VERSION")),
        "tenant": request.tenant,
        "corpus": request.corpus,
        "since": text(request.since),
        "until": text(request.until),
        "databaseTime": text(now),
        "windowClosed": closed,
        "countPolicy": COUNT_POLICY,
        "hashPolicy": "SHA-256 of the line without its hash member; each line names the hash of the line before",
    });
    bare(&header.to_string()).to_owned()
}

fn members(record: &v1::AuditRecord) -> Result<String> {
    let text = serde_json::to_string(record)
        .map_err(|e| Error::internal("a retrieval can't be written").caused_by(e))?;
    Ok(bare(&text).to_owned())
}

/// An object without its braces.
fn bare(object: &str) -> &str {
    let inner = object.strip_prefix('{').unwrap_or(object);
    inner.strip_suffix('}').unwrap_or(inner)
}

/// Where lines go: standard output, or a file that gets its name when it is complete.
struct Target {
    out: BufWriter<Box<dyn Write>>,
    file: Option<(File, PathBuf, PathBuf)>,
}

impl Target {
    fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            let out = BufWriter::new(Box::new(std::io::stdout()) as Box<dyn Write>);
            return Ok(Self { out, file: None });
        };
        if path.exists() {
            return Err(Error::invalid_field(
                "--out",
                "is there already: evidence is not written over",
            ));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".part");
        let partial = PathBuf::from(partial);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        // Who asked what is nobody else's business on this machine.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&partial).map_err(unwritable)?;
        let kept = file.try_clone().map_err(unwritable)?;
        Ok(Self {
            out: BufWriter::new(Box::new(file)),
            file: Some((kept, partial, path.to_owned())),
        })
    }

    fn write(&mut self, line: &str) -> Result<()> {
        self.out.write_all(line.as_bytes()).map_err(unwritable)
    }

    fn finish(mut self) -> Result<()> {
        self.out.flush().map_err(unwritable)?;
        if let Some((file, partial, path)) = &self.file {
            file.sync_all().map_err(unwritable)?;
            std::fs::rename(partial, path).map_err(unwritable)?;
        }
        self.file = None;
        Ok(())
    }
}

impl Drop for Target {
    /// What was not finished is no evidence, and says who asked what.
    fn drop(&mut self) {
        if let Some((_, partial, _)) = &self.file {
            let _ = std::fs::remove_file(partial);
        }
    }
}

fn unwritable(e: std::io::Error) -> Error {
    Error::invalid_field("--out", "can't be written").caused_by(e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::audit::chain::verify;

    fn moment(text: &str) -> Option<WireTimestamp> {
        Some(WireTimestamp::parse(text).expect("a moment"))
    }

    /// Whatever a caller asked, its line is one line and the chain holds.
    #[test]
    fn exported_lines_are_what_verify_reads() {
        let request = v1::AuditRequest {
            tenant: "t1".into(),
            since: moment("2026-01-01T00:00:00Z"),
            until: moment("2026-01-02T00:00:00.5Z"),
            ..v1::AuditRequest::default()
        };
        let record = v1::AuditRecord {
            retrieval_id: "01900000-0000-7abc-8123-0123456789ab".into(),
            at: moment("2026-01-02T00:00:00.499999Z"),
            tenant: "t1".into(),
            corpus: "c".into(),
            query: Some(v1::AskedQuery {
                text: "a\nb\",\"hash\":\"\u{2028}}".into(),
                hashed: false,
            }),
            ..v1::AuditRecord::default()
        };
        let mut chain = Chain::new();
        let header = header(&request, moment("2026-01-02T00:00:00.4Z"));
        let mut text = chain.seal("header", &header);
        text += &chain.seal("retrieval", &members(&record).expect("written"));
        let end = format!("\"count\":1,\"lastHash\":\"{}\"", chain.last());
        text += &chain.seal("end", &end);
        let found = verify(text.as_bytes()).expect("sound");
        assert_eq!((found.count, found.closed), (1, false));
        assert_eq!(found.until, "2026-01-02T00:00:00.5Z");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_complete_and_none_is_written_over() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.jsonl");
        let mut target = Target::open(Some(&path)).expect("opened");
        target.write("x\n").expect("written");
        assert!(!path.exists());
        target.finish().expect("finished");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "x\n");
        assert!(Target::open(Some(&path)).is_err());
        let other = dir.path().join("b.jsonl");
        drop(Target::open(Some(&other)).expect("opened"));
        let left = std::fs::read_dir(dir.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing of what was not finished");
    }
}
