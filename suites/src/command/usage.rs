//! What is wrong with a command line, in one sentence.

use std::process::ExitCode;

use clap::Error;
use clap::error::ErrorKind;
use stormproof::verdict::{EXIT_USAGE, Verdict};

use super::output::note;

/// Prints help where it was asked for, else one sentence on stderr; the exit code.
pub(super) fn report(error: &Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let printed = error.print();
        if let Err(error) = printed
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            note(format_args!("stormproof: the help cannot be printed: {error}"));
            return ExitCode::from(Verdict::Invalid.exit_code());
        }
    } else {
        note(format_args!("stormproof: {}; --help shows what there is", sentence(&error.to_string())));
    }
    ExitCode::from(if error.use_stderr() { EXIT_USAGE } else { 0 })
}

/// clap writes an error, tips and the usage as paragraphs: the error and its tips, on one line.
fn sentence(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let paragraphs = text.split("\n\n").filter(|part| !part.starts_with("Usage:") && !part.starts_with("For more "));
    let lines = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    paragraphs.map(lines).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_tips_stay_usage_goes() {
        let text = "error: unexpected argument '--executers' found\n\n  tip: a similar argument exists: '--executors'\n\n\
                    Usage: stormproof up --executors <EXECUTORS>\n\nFor more information, try '--help'.\n";
        let expected = "unexpected argument '--executers' found; tip: a similar argument exists: '--executors'";
        assert_eq!(sentence(text), expected);
    }

    #[test]
    fn possible_values_stand_on_the_same_line() {
        let text = "error: invalid value 'x' for '--target <TARGET>'\n  [possible values: bundled]\n\nFor more information, try '--help'.\n";
        assert_eq!(sentence(text), "invalid value 'x' for '--target <TARGET>' [possible values: bundled]");
    }
}
