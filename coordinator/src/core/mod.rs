//! Pure state machines: every decision of the coordinator, with no clock, socket, thread or randomness of its own.
//!
//! `JobCore` is `(state, event, now) -> (state, commands)`. The runtime feeds it events in order from one serial
//! owner per job and executes its commands; a simulator can do the same in virtual time.

#![deny(clippy::disallowed_methods)]

pub mod checkpoint;
pub mod event;
pub mod snapshot;
pub mod status;
