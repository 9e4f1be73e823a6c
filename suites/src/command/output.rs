//! Results on stdout, everything else on stderr.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

/// Prints one line. A reader that has gone (`stormproof jobs | head -1`) wants no more and is no error.
pub(super) fn say(line: impl Display) {
    match writeln!(io::stdout().lock(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            note(format_args!("stormproof: stdout cannot be written: {error}"));
        }
        _ => {}
    }
}

/// Prints one line for people. If nobody can read it, the work goes on: `eprintln` would panic in the middle of it.
pub(in crate::command) fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
