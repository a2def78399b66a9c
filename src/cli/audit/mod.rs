//! `ragbus audit`: retrievals of a window in a file that shows when something was done to it, and the check of such a file.

mod chain;
mod export;

use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

use serde_json::json;

use super::args_tracking::{AuditArgs, AuditCommand, AuditVerifyArgs};
use super::{context, output};
use crate::config::Config;
use crate::error::{Error, Result};
use chain::Verified;

pub(super) fn run(config: &Config, args: &AuditArgs) -> Result<ExitCode> {
    match &args.command {
        AuditCommand::Export(args) => context::block_on(export::run(config, args)),
        AuditCommand::Verify(args) => verify(args),
    }
}

fn verify(args: &AuditVerifyArgs) -> Result<ExitCode> {
    let name = args.file.display();
    let file = File::open(&args.file)
        .map_err(|e| Error::invalid_field(name.to_string(), "can't be read").caused_by(e))?;
    let found = chain::verify(BufReader::new(file));
    let other = |found: &Verified| {
        args.hash
            .as_ref()
            .is_some_and(|hash| *hash != found.last_hash)
    };
    let problem = match &found {
        Ok(found) if other(found) => Some("is sound, but its last hash is another".to_owned()),
        Ok(_) => None,
        Err(fault) => Some(format!("line {} {}", fault.line, fault.problem)),
    };
    if args.json {
        let sound = found.as_ref().ok();
        output::json(&json!({
            "valid": problem.is_none(),
            "problem": problem,
            "line": found.as_ref().err().map(|fault| fault.line),
            "tenant": sound.map(|f| &f.tenant),
            "corpus": sound.map(|f| &f.corpus),
            "since": sound.map(|f| &f.since),
            "until": sound.map(|f| &f.until),
            "windowClosed": sound.map(|f| f.closed),
            "count": sound.map(|f| f.count),
            "lastHash": sound.map(|f| &f.last_hash),
        }))?;
    } else {
        match (&found, &problem) {
            (Ok(found), None) => print(found)?,
            (_, problem) => output::line(&format!(
                "{name}: {}",
                problem.as_deref().unwrap_or_default()
            ))?,
        }
    }
    Ok(ExitCode::from(u8::from(problem.is_some())))
}

fn print(found: &Verified) -> Result<()> {
    let corpus = match found.corpus.as_str() {
        "" => "all corpora".to_owned(),
        corpus => format!("corpus {corpus}"),
    };
    output::line(&format!(
        "sound: {} retrievals of tenant {}, {corpus}, {} to {}",
        found.count, found.tenant, found.since, found.until
    ))?;
    if !found.closed {
        output::line(
            "the window was not over when it was exported: later retrievals are not in it",
        )?;
    }
    output::line(&format!("last hash {}", found.last_hash))
}
