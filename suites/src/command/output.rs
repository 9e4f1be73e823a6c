//! Results on stdout.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

/// Prints one line. A reader that has gone (`stormproof jobs | head -1`) wants no more and is no error.
pub(super) fn say(line: impl Display) {
    match writeln!(io::stdout().lock(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("stormproof: stdout cannot be written: {error}")
        }
        _ => {}
    }
}
