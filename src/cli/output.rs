//! Printing: tables for people, JSON for programs.

use std::io::{IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::error::{Error, Result};

/// Prints a line of JSON.
pub(super) fn json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value)
        .map_err(|e| Error::internal("the answer can't be printed").caused_by(e))?;
    line(&text)
}

/// Prints a line; a reader that went away is no error.
pub(super) fn line(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Error::internal("standard output failed").caused_by(e)),
    }
}

/// An empty table that fits the terminal.
pub(super) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    if table.width().is_none() {
        table.set_width(120);
    }
    table
}

/// Whether a person reads standard output.
pub(super) fn terminal() -> bool {
    std::io::stdout().is_terminal()
}
