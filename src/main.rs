//! The `ragbus` program: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    ragbus::cli::main()
}
