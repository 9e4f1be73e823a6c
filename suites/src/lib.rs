//! The shipped suites of Stormproof, their test jobs, and the `stormproof` command.
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`jobs`] | a batch word count and a streaming job, as ordinary Rust |
//! | [`suites`] | the headline suites: what is broken, and what must hold |
//! | [`command`] | the `stormproof` command |

pub mod command;
pub mod jobs;
pub mod suites;
