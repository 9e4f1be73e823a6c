//! The bundled engine of Stormproof: a small, honest copy of Flink's control plane, with executors that are real
//! processes, real sockets between them and a real object store behind them.
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`graph`] | jobs as users write them: [`graph::JobGraph`], sources, operators, partition types |
//! | [`core`] | pure state machines: regions, restart sets, restart strategies, the job itself. No clock, no socket |
//! | [`storage`] | checkpoints in an object store: metadata, the completed-checkpoint store, the S3 client |
//! | [`leadership`] | leader election and the pointers that survive a killed coordinator |
//! | [`runtime`] | the tokio shell around `core`: Dispatcher, JobMaster, resource manager, RPC |
//! | [`executor`] | tasks, exchanges, result partitions on disk, state, barriers |
//! | [`explain`] | what restarts if a task fails, for graphs in JSON Lines |
//! | [`rest`] | Flink's REST API: same paths, same JSON |
//!
//! How a task failure becomes a restart, and where each part of FLINK-4256 is: [`core::fine_grained_recovery`]. What
//! became of Flink's own tests of this area: `parity.tsv` beside this crate's manifest, counted by
//! `stormproof doctor --parity`.
//!
//! The rule that decides most questions: **one serial owner per job, and everything slow is outside it**
//! (FLINK-22483 was a breach of exactly this).

pub mod config;
pub mod core;
pub mod executor;
pub mod explain;
pub mod graph;
pub mod leadership;
pub mod rest;
pub mod runtime;
pub mod storage;
