//! Faults as leases, and a Toxiproxy-compatible proxy that cannot hang.
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`fault`] | one file a fault: describe, inject, wait until it bites, heal, wait until it is healed |
//! | [`lease`] | how a fault is held, from the journal entry to the verified heal |
//! | [`journal`] | write-ahead: the undo is on disk, synced, before the do |
//! | [`guardian`] | the process that undoes what a dead runner left |
//! | [`run_record`], [`heal`] | who runs and what it may leave; tidying up after a run that died with its guardian |
//! | [`part`] | programs of others that can stand in for ours: where they are, and what brings them |
//! | [`process`] | processes by pid and start time, and by the tag of their run |
//! | [`whole_file`] | files that are seen whole or not at all |
//! | [`tag`] | names that nothing else has |
//! | [`toxiproxy`] | the embedded proxy server (Toxiproxy 2.12 on the wire), its typed client, and the pure toxics |
//!
//! This crate knows nothing of the coordinator or the harness: it breaks connections, processes and stores, whoever
//! owns them.

pub mod fault;
pub mod guardian;
pub mod heal;
pub mod journal;
pub mod lease;
pub mod part;
pub mod process;
pub mod run_record;
pub mod tag;
pub mod toxiproxy;
pub mod whole_file;
