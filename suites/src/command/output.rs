//! Results on stdout, everything else on stderr.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use stormproof::verdict::Verdict;

/// A part of the result did not reach whoever waits for it.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Prints one line. A reader that has gone (`stormproof jobs | head -1`) wants no more and is no error; any other error
/// is told once, and [`exit_code`] remembers it.
pub(super) fn say(line: impl Display) {
    match writeln!(io::stdout().lock(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe && !IS_LOST.swap(true, Relaxed) => {
            note(format_args!("stormproof: stdout cannot be written: {error}"));
        }
        _ => {}
    }
}

/// The exit code of a command that comes to `code`: one that is green does not stand for a result that was lost.
pub(super) fn exit_code(code: u8) -> u8 {
    if code == 0 && IS_LOST.load(Relaxed) { Verdict::Invalid.exit_code() } else { code }
}

/// Prints one line for people. If nobody can read it, the work goes on: `eprintln` would panic in the middle of it.
pub(in crate::command) fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
