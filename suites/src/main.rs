//! The `stormproof` command. See [`stormproof_suites::command`].

use std::process::ExitCode;

fn main() -> ExitCode {
    stormproof_suites::command::main()
}
