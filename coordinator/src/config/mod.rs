//! Configuration, by Flink's own keys.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`options`] | every key that is understood: its kind, its default, its older names |
//! | [`settings`] | [`Settings`]: values of those keys, checked when they are set; later sources override earlier ones |
//! | [`file`](mod@file) | reads a TOML file or a Flink `config.yaml` |
//! | [`cluster`] | what the coordinator process itself is configured with |
//! | [`job`] | what a job is configured with, and which restart strategy applies |

//! | [`process`] | how processes are started |
//!
//! An unknown key is an error that names the nearest known one: a misspelt `heartbeat.timout` that is silently
//! ignored would make a recovery suite measure something else than it says.

pub mod cluster;
pub mod duration;
pub mod file;
pub mod job;

pub mod options;
pub mod process;
pub mod settings;
mod suggest;
mod yaml;

pub use cluster::ClusterSettings;
pub use process::{CoordinatorConfig, ExecutorConfig, Ready, StoreConfig};
pub use settings::{ConfigError, Settings};
