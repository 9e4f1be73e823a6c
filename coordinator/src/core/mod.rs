//! Pure state machines: every decision of the coordinator, with no clock, socket, thread or randomness of its own.
//!
//! `JobCore` is `(state, event, now) -> (state, commands)`. The runtime feeds it events in order from one serial
//! owner per job and executes its commands; a simulator can do the same in virtual time.

#![deny(clippy::disallowed_methods)]

mod bitset;
pub mod checkpoint;
pub mod consumable;
mod csr;
pub mod data_sets;
pub mod event;
pub mod failover;
pub mod fine_grained_recovery;
pub mod input_splits;
pub mod job;
pub mod partition_release;
pub mod partition_tracker;
pub mod regions;
pub mod restart_strategy;
pub(crate) mod scc;
pub mod slot_manager;
pub mod snapshot;
pub mod status;
#[cfg(test)]
mod testing;
pub mod topology;
mod union_find;
