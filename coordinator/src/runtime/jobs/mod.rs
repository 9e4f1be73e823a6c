//! Jobs of this coordinator, each with one task of its own from submission to clean-up.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`entry`] | [`JobEntry`]: a job as the Dispatcher sees it: its published snapshot and its phase |
//! | [`define`](mod@define) | builds and checks what a job is: graph and settings |
//! | [`run`](mod@run) | a job's life: initialize, serve, end |
//! | [`initialize`] | INITIALIZING: the checkpoint store is recovered, whatever it takes |
//! | [`master`] | the serial thread around [`crate::core::job::JobCore`] |
//! | [`commands`] | carries out the state machine's commands |
//! | [`outside`] | what is slow, and runs beside the serial thread |
//! | [`ending`] | the result is recorded, then everything else is deleted |
//! | [`sparse`] | snapshots of jobs that have no JobMaster |
//! | [`mailbox`] | the way into a job's serial thread |

pub(crate) mod commands;
pub(crate) mod define;
pub(crate) mod ending;
pub(crate) mod entry;
pub(crate) mod initialize;
pub(crate) mod mailbox;
pub(crate) mod master;
pub(crate) mod outside;
pub(crate) mod run;
pub(crate) mod sparse;
