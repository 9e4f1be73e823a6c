//! Executors end to end: real sockets, files and threads, with a scripted coordinator.

mod batch;
mod checkpoints;
mod cluster;
mod connection;
mod failures;
mod jobs;
mod memory;
mod support;
