//! The shipped suites: what must hold, on any engine, when these things break.

mod batch;
mod check;
mod network;
mod partitions;
mod processes;
mod store;
mod stream;
mod triggers;
mod user_code;

use std::path::{Path, PathBuf};

use stormproof::plan::Plan;

/// All headline suites, in order. `input` is the folder of text that the batch job counts.
#[must_use]
pub fn headline(input: &Path) -> Vec<Plan> {
    let mut plans = batch::plans(input);
    plans.extend(stream::plans());
    plans
}

/// The suites of the faults and the triggers that the headline suites do without.
#[must_use]
pub fn of_each_fault(input: &Path) -> Vec<Plan> {
    let mut plans = partitions::plans(input);
    plans.extend(user_code::plans(input));
    plans.extend(processes::plans(input));
    plans.extend(triggers::plans());
    plans.extend(store::plans());
    plans.extend(network::plans());
    plans
}

/// What the batch job counts when nothing else is asked for: the sources of this workspace if they are still where
/// this binary was built, else the current folder.
#[must_use]
pub fn default_input() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned);
    workspace.filter(|folder| folder.is_dir()).unwrap_or_else(|| PathBuf::from("."))
}
