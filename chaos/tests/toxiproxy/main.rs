//! The parity suite: Toxiproxy's behaviours (P-rows), over real sockets, against our embedded server.
//!
//! With `TOXIPROXY_URL` set it runs against that server instead, one test at a time; tests of what we fixed, refuse or
//! add are skipped there.

mod api;
mod connections;
mod effects;
mod fixture;
mod live;
mod populate;
mod proxies;
mod toxics;
mod transfer;
