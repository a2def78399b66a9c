//! The command line. Commands but `worker`, `setup`, `dev`, `models` and `check-config` talk to workers over NATS and open
//! no store themselves.
//!
//! Layer 4. Exit codes: 0 done, 1 the work failed, 2 usage or configuration.

mod args;
mod args_eval;
mod args_feedback;
mod args_retention;
mod args_tracking;
mod audit;
mod bench;
mod bench_ingest;
mod calibrate;
mod context;
mod delete;
mod dev;
mod eval;
mod feedback;
mod files;
mod ingest;
mod models;
mod moments;
mod nats_server;
mod output;
mod printable;
mod pull;
mod qrels;
mod query;
mod reindex;
mod report;
mod retention;
mod service;
mod snippet;
mod stats;
mod status;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use crate::config::{self, Config};
use crate::error::{Error, ErrorKind, Result};
use args::{Cli, Command};

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    quiet_panics();
    let outcome = config::load(&cli.overrides()).and_then(|config| dispatch(cli.command, config));
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ragbus: {}", error.chain());
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &Error) -> u8 {
    if error.kind() == ErrorKind::InvalidField {
        2
    } else {
        1
    }
}

/// A panic's message may quote what was being worked on: only its place is told.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a bug: panicked");
    }));
}

fn dispatch(command: Command, config: Config) -> Result<ExitCode> {
    match command {
        Command::Worker(args) => service::worker(&config, &args),
        Command::Setup(args) => service::setup(&config, &args),
        Command::Dev(args) => dev::run(config, &args),
        Command::Ingest(args) => context::block_on(ingest::run(&config, &args)),
        Command::Query(args) => context::block_on(query::run(&config, &args)),
        Command::Delete(args) => context::block_on(delete::run(&config, &args)),
        Command::Feedback(args) => context::block_on(feedback::run(&config, &args)),
        Command::Status(args) => context::block_on(status::run(&config, &args)),
        Command::Eval(args) => context::block_on(eval::run(&config, &args)),
        Command::Calibrate(args) => context::block_on(calibrate::run(&config, &args)),
        Command::Reindex(args) => context::block_on(reindex::run(&config, &args)),
        Command::Purge(args) => context::block_on(retention::purge(&config, &args)),
        Command::Hold(args) => context::block_on(retention::hold(&config, &args)),
        Command::Forget(args) => context::block_on(retention::forget(&config, &args)),
        Command::Stats(args) => context::block_on(stats::run(&config, &args)),
        Command::Audit(args) => audit::run(&config, &args),
        Command::Qrels(args) => context::block_on(qrels::run(&config, &args)),
        Command::Verify(args) => context::block_on(verify::run(&config, &args)),
        Command::CheckConfig(args) => service::check_config(&config, &args),
        Command::Models(args) => models::run(&config, &args),
        Command::Bench(args) => context::block_on(bench::run(&config, &args)),
    }
}
