//! Which store and which proxy a bundled cluster uses.

use clap::Args;
use stormproof::target::bundled::PartChoices;

use super::CommandError;

/// The parts of a bundled cluster that can be chosen.
#[derive(Debug, Clone, Args)]
pub(super) struct PartsArguments {
    /// The checkpoint store: `embedded`, `minio`, or the path of a MinIO program
    #[arg(long, default_value = "embedded", value_name = "STORE")]
    store: String,
    /// The proxy in front of the store: `embedded`, `toxiproxy`, or the path of a toxiproxy-server program
    #[arg(long, default_value = "embedded", value_name = "PROXY")]
    proxy: String,
}

impl PartsArguments {
    /// What they mean on this machine.
    pub(super) fn choices(&self) -> Result<PartChoices, CommandError> {
        PartChoices::parse(&self.store, &self.proxy).map_err(|error| CommandError::bad_input(&error))
    }

    /// The same arguments for the command that repeats a run; nothing if both are the default.
    pub(super) fn repeated(&self, quoted: impl Fn(&str) -> String) -> String {
        let given = [("store", &self.store), ("proxy", &self.proxy)];
        let chosen = given.into_iter().filter(|(_, value)| *value != "embedded");
        chosen.map(|(name, value)| format!(" --{name} {}", quoted(value))).collect()
    }
}
