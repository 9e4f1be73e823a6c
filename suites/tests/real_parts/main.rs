//! The command with parts of others: green with a real MinIO and a real Toxiproxy where it is with ours, nothing left
//! behind, and our S3 server under AWS's own SDK and rclone.
//!
//! `ci/provision minio`, `toxiproxy` and `clients` bring them; without them these tests are listed as ignored.

mod inject;
mod kill;
mod run;
mod s3;
#[expect(dead_code, unused_imports, reason = "made for the tests of the command, of which these need a part")]
#[path = "../command/support/mod.rs"]
mod support;
mod up;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use stormproof::chaos::part::RealPart;

const MINIO: &[RealPart] = &[RealPart::Minio];
const TOXIPROXY: &[RealPart] = &[RealPart::ToxiproxyServer];
const JAVA: &[RealPart] = &[RealPart::JavaClients];
const PYTHON: &[RealPart] = &[RealPart::PythonClients];
const RCLONE: &[RealPart] = &[RealPart::Rclone];
const BOTH: &[RealPart] = &[RealPart::Minio, RealPart::ToxiproxyServer];

/// The flags that ask for both.
const FLAGS: [&str; 4] = ["--store", "minio", "--proxy", "toxiproxy"];

fn main() -> ExitCode {
    let trials = vec![
        trial("run::both_are_green_and_say_what_is_not_seen", BOTH, run::both_are_green_and_say_what_is_not_seen),
        trial("run::minio_alone_is_green", MINIO, run::minio_alone_is_green),
        trial("run::toxiproxy_alone_is_green", TOXIPROXY, run::toxiproxy_alone_is_green),
        trial("up::both_are_named_keep_their_keys_and_end", BOTH, up::both_are_named_keep_their_keys_and_end),
        trial(
            "up::a_part_that_ends_at_once_is_told_with_its_log",
            &[],
            up::a_part_that_ends_at_once_is_told_with_its_log,
        ),
        trial(
            "inject::what_it_did_is_not_known_but_it_is_healed",
            TOXIPROXY,
            inject::what_it_did_is_not_known_but_it_is_healed,
        ),
        trial("inject::its_guardian_or_heal_undoes_it", TOXIPROXY, inject::its_guardian_or_heal_undoes_it),
        trial("s3::the_sdk_of_aws_finds_what_aws_documents", PYTHON, s3::the_sdk_of_aws_finds_what_aws_documents),
        trial("s3::hadoops_s3a_keeps_checkpoints_as_flink_does", JAVA, s3::hadoops_s3a_keeps_checkpoints_as_flink_does),
        trial("s3::rclone_copies_checks_and_removes", RCLONE, s3::rclone_copies_checks_and_removes),
        trial("kill::a_killed_run_leaves_nothing", BOTH, kill::a_killed_run_leaves_nothing),
        trial(
            "kill::parts_die_with_the_runner_even_if_its_guardian_is_dead",
            BOTH,
            kill::parts_die_with_the_runner_even_if_its_guardian_is_dead,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that is ignored where one of `needs` is not found; what it is listed with says what brings it.
fn trial(name: &str, needs: &[RealPart], test: fn()) -> Trial {
    let trial = Trial::test(name, move || {
        test();
        Ok(())
    });
    match needs.iter().find(|part| part.find().is_err()) {
        None => trial,
        Some(part) => trial.with_kind(format!("needs {}", part.provision())).with_ignored_flag(true),
    }
}
