//! Faults as leases, and a Toxiproxy-compatible proxy that cannot hang.
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`toxiproxy`] | the embedded proxy server (Toxiproxy 2.12 on the wire), its typed client, and the pure toxics |
//!
//! This crate knows nothing of the coordinator or the harness: it breaks connections, processes and stores, whoever
//! owns them.

pub mod toxiproxy;
