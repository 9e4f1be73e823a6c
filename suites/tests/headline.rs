//! The headline suites as tests.

use std::process::ExitCode;

use stormproof_suites::{jobs, suites};

fn main() -> ExitCode {
    stormproof::main(|app| {
        app.jobs(jobs::register);
        for plan in suites::headline(&suites::default_input()) {
            app.suite(plan);
        }
    })
}
