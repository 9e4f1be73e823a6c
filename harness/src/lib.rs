//! Stormproof proves that a batch-and-stream engine recovers as it promises: it runs jobs, breaks things at chosen
//! moments and judges from recorded facts.
//!
//! ```text
//! plan ──resolve──> run ──records──> timeline ──oracles──> verdicts ──> reports
//! ```
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`main()`], [`App`] | the main function of a test binary with `harness = false` |
//! | [`prelude`], [`job`] | what suites and test jobs are written with |
//! | [`plan`] | what is to be run, broken and expected: data, the same for every target |
//! | [`target`] | clusters that can be tested |
//! | [`role`] | what a process of the user's own binary becomes instead of running tests |
//! | [`run`] | runs a plan on a target and writes everything down |
//! | [`inject`] | one fault by itself, on what is there already |
//! | [`observe`] | watches a job through REST |
//! | [`flink`] | client of Flink's REST API, 1.13 to 2.3; the bundled coordinator speaks it too |
//! | [`explain`] | what restarts if this fails, and why |
//! | [`probe`] | open-loop probes of the control plane |
//! | [`timeline`] | the append-only record of a run, its file form, and the questions oracles ask of it |
//! | [`oracle`] | judgements over a timeline |
//! | [`report`] | run folders, `report.md`, `summary.json`, JUnit |
//! | [`args`] | the command line of a test binary: libtest's flags, nextest's contract |
//! | [`logging`] | log lines of a server that runs on its own |
//! | [`plural`] | numbers of things, in words |
//! | [`nearest`] | "did you mean …?" |
//! | [`verdict`] | the eight verdicts, how they combine, exit codes |
//!
//! An oracle never asks the target anything: it reads the [`timeline::Timeline`], so a recorded run can be judged
//! again, and every target shares every oracle.

pub mod args;
pub mod explain;
pub mod flink;
mod guard;
pub mod inject;
pub mod job;
pub mod logging;
mod main_function;
pub mod nearest;
pub mod observe;
pub mod oracle;
pub mod plan;
pub mod plural;
pub mod prelude;
pub mod probe;
pub mod report;
pub mod role;
pub mod run;
pub mod target;
pub mod timeline;
pub mod verdict;

pub use main_function::{App, main};
pub use stormproof_coordinator::config::duration;
pub use {stormproof_chaos as chaos, stormproof_store as store};
