//! What a person sees while suites run: a spinner each on a terminal, a line each elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use stormproof::run::{Outcome, Progress};
use stormproof::verdict::Verdict;

use super::output::note;

/// Shows the running suites on stderr.
pub(super) struct Board {
    /// Present on a terminal only.
    bars: Option<MultiProgress>,
    running: Mutex<BTreeMap<String, ProgressBar>>,
}

impl Board {
    pub(super) fn new() -> Self {
        let bars = std::io::stderr().is_terminal().then(MultiProgress::new);
        Self { bars, running: Mutex::new(BTreeMap::new()) }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, ProgressBar>> {
        // A panic elsewhere leaves the map whole: every change of it is one call.
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn started(&self, suite: &str) {
        let Some(bars) = &self.bars else { return };
        let style = ProgressStyle::with_template("{spinner} {prefix:32} {elapsed:>4} {msg}");
        let bar = bars.add(ProgressBar::new_spinner());
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_prefix(suite.to_owned());
        bar.set_message("bringing the cluster up");
        bar.enable_steady_tick(Duration::from_millis(120));
        self.running().insert(suite.to_owned(), bar);
    }

    pub(super) fn ended(&self, outcome: &Outcome) {
        let line =
            format!("{:12} {:34} {:>6.2} s", mark(outcome.verdict()), outcome.suite(), outcome.took.as_secs_f64());
        match (&self.bars, self.running().remove(outcome.suite())) {
            (Some(bars), Some(bar)) => {
                bar.finish_and_clear();
                // A terminal that cannot be written to has nobody to tell.
                let _ = bars.println(line);
            }
            _ => note(line),
        }
    }
}

impl Progress for Board {
    fn status(&self, suite: &str, status: &str) {
        if let Some(bar) = self.running().get(suite) {
            bar.set_message(format!("job {status}"));
        }
    }
}

/// The verdict as it stands at the beginning of a line.
pub(super) fn mark(verdict: Verdict) -> String {
    verdict.name().to_uppercase()
}
