//! A program of others in place of a role.
//!
//! It is started by way of our own binary, which ties itself to the runner and then becomes the program: the
//! parent-death signal survives `exec`, and no foreign program would ask for it itself. The settings come through the
//! pipe as for any role, so that its secrets are on no command line and in no environment but its own.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::{ROLE_VARIABLE, lifeline};

/// Which program to become. Not `Debug`: the environment holds secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartConfig {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Set in its environment.
    pub environment: BTreeMap<String, String>,
    /// Variables that begin so are not inherited: what a user has set for another server must not reach this one.
    pub own_prefix: Option<String>,
}

/// Becomes the program; returns only if that failed.
pub(super) fn become_part(config: &PartConfig) -> io::Error {
    if let Err(error) = lifeline::die_with_parent() {
        return error;
    }
    let mut command = Command::new(&config.program);
    if let Some(prefix) = &config.own_prefix {
        let inherited = std::env::vars_os().map(|(name, _)| name);
        inherited.filter(|name| name.to_string_lossy().starts_with(prefix.as_str())).for_each(|name| {
            command.env_remove(name);
        });
    }
    command.args(&config.arguments).env_remove(ROLE_VARIABLE).envs(&config.environment);
    let error = command.exec();
    io::Error::new(error.kind(), format!("could not run {}: {error}", config.program.display()))
}
