//! The suites of all other faults as tests.

use std::process::ExitCode;

use stormproof_suites::{jobs, suites};

fn main() -> ExitCode {
    stormproof::main(|app| {
        app.jobs(jobs::register);
        for plan in suites::of_each_fault(&suites::default_input()) {
            app.suite(plan);
        }
    })
}
