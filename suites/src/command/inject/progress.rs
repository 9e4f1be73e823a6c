//! What a person sees while a fault is held: the time left on a terminal, a line a step elsewhere.

use std::fmt::Write;
use std::io::IsTerminal as _;
use std::sync::OnceLock;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use stormproof::inject::Moment;

use crate::command::output::note;

/// Shows on stderr how far a fault has come.
pub(super) struct Watch {
    what: String,
    hold_for: Option<Duration>,
    is_terminal: bool,
    /// There from the injection on, on a terminal only.
    bar: OnceLock<ProgressBar>,
}

impl Watch {
    pub(super) fn new(what: String, hold_for: Option<Duration>) -> Self {
        Self { what, hold_for, is_terminal: std::io::stderr().is_terminal(), bar: OnceLock::new() }
    }

    pub(super) fn told(&self, moment: Moment) {
        let what = &self.what;
        let line = match (moment, self.hold_for) {
            (Moment::Injected, None) => format!("{what}: injected"),
            (Moment::Injected, Some(time)) => format!("{what}: injected, to be healed in {} s", time.as_secs_f64()),
            (Moment::Bites, _) => format!("{what}: bites"),
            (Moment::Healing, Some(_)) => format!("{what}: healing"),
            (Moment::Healing, None) => return,
        };
        if self.is_terminal { self.bar().set_message(line) } else { note(line) }
    }

    /// Takes the bar away: the result comes.
    pub(super) fn ended(&self) {
        self.bar.get().map(ProgressBar::finish_and_clear);
    }

    fn bar(&self) -> &ProgressBar {
        self.bar.get_or_init(|| {
            let hold_for = self.hold_for;
            // Counted from the injection, when the bar is made.
            let left = move |state: &ProgressState, out: &mut dyn Write| {
                let left = hold_for.unwrap_or_default().saturating_sub(state.elapsed());
                // A terminal that cannot be written to has nobody to tell.
                let _ = write!(out, "{:.0} s left", left.as_secs_f64().ceil());
            };
            let style = ProgressStyle::with_template("{spinner} {msg} ({left})");
            let bar = ProgressBar::new_spinner();
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()).with_key("left", left));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        })
    }
}
