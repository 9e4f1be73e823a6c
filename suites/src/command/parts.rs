//! Which store and which proxy a bundled cluster uses.

use clap::Args;

/// The parts of a bundled cluster that can be chosen.
#[derive(Debug, Clone, Args)]
pub(super) struct PartsArguments {
    /// The checkpoint store
    #[arg(long, default_value = "embedded", value_parser = ["embedded"])]
    store: String,
    /// The proxy in front of the store
    #[arg(long, default_value = "embedded", value_parser = ["embedded"])]
    proxy: String,
}
