//! TREC run files: compared without a service, and written for other tools.

use std::path::{Path, PathBuf};

use super::super::args_eval::EvalArgs;
use super::findings::{Fact, Findings};
use super::measured::Measured;
use super::{dataset, plan};
use crate::error::{Error, Result};
use crate::evaluation::{Ranked, evaluate, format_run, parse_run};

const TAG: &str = "ragbus";

/// Compares run files; the first is every other's baseline.
pub(super) fn compare(args: &EvalArgs) -> Result<Findings> {
    let Some(qrels) = &args.judged.qrels else {
        return Err(Error::invalid_field("--qrels", "is needed with --run"));
    };
    let judgements = dataset::judgements(qrels)?;
    let ranked = read(&args.run)?;
    let mut asked: Vec<String> = judgements.queries().map(str::to_owned).collect();
    asked.truncate(args.judged.queries.map_or(usize::MAX, |n| n as usize));
    let facts = vec![
        Fact::new("qrels", "judgements", qrels.display().to_string()),
        Fact::new("judgedPairs", "judged pairs", judgements.pairs()),
    ];
    let warnings = ranked
        .iter()
        .filter_map(|run| missing(run, &asked))
        .collect();
    Ok(Findings {
        facts,
        evaluation: evaluate(&ranked, &judgements, &asked, plan(args)),
        measured: Vec::new(),
        skipped: Vec::new(),
        warnings,
    })
}

/// Named after their files, the first one every other's baseline.
fn read(paths: &[PathBuf]) -> Result<Vec<Ranked>> {
    let mut ranked: Vec<Ranked> = Vec::new();
    for path in paths {
        let file = path.display().to_string();
        let short = path.file_name().map(|n| n.to_string_lossy().into_owned());
        let free = |name: &String| ranked.iter().all(|other| other.name != *name);
        let name = short.filter(free).unwrap_or(file.clone());
        let rankings = parse_run(&file, &dataset::text(path)?)?.rankings();
        let first = ranked.first().map(|first| first.name.clone());
        ranked.push(Ranked {
            name,
            baselines: first.into_iter().collect(),
            rankings,
        });
    }
    Ok(ranked)
}

/// As with `trec_eval -c`, a query without a line counts as nothing found.
fn missing(run: &Ranked, asked: &[String]) -> Option<String> {
    let missing = asked
        .iter()
        .filter(|query| !run.rankings.contains_key(*query))
        .count();
    (missing > 0).then(|| {
        format!(
            "{}: {missing} of {} judged queries have no line and count as nothing found",
            run.name,
            asked.len()
        )
    })
}

/// Writes a run file for each configuration.
///
/// # Errors
/// `InvalidField` on `--run-out`.
pub(super) fn write(folder: &Path, measured: &[Measured]) -> Result<()> {
    let failed =
        |e: std::io::Error| Error::invalid_field("--run-out", "can't be written").caused_by(e);
    std::fs::create_dir_all(folder).map_err(failed)?;
    for one in measured {
        let path = folder.join(format!("{}.run", file_name(&one.configuration.name)));
        std::fs::write(path, format_run(&one.rankings, TAG)).map_err(failed)?;
    }
    Ok(())
}

/// A configuration's name may hold anything.
fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '+' | '_');
    name.chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect()
}
