//! The faults of a run: which wait, which are held, which are healed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use stormproof_chaos::journal::Journal;
use stormproof_chaos::lease::{Lease, Renewal};
use tokio::time::Instant;

use crate::plan::{Budget, Facts, Hurt, OverBudget, Plan, PlannedFault, Trigger};
use crate::role::chain;
use crate::target::Target;
use crate::timeline::{FaultEvent, Losses, RecordKind, Recorder, Timeline};
use crate::verdict::Verdict;

/// How long a heal may take until a probe confirms it.
pub(crate) const HEAL_DEADLINE: Duration = Duration::from_secs(10);

enum State {
    Waiting,
    Held {
        lease: Box<Lease>,
        losses: Losses,
        /// Look at the facts after which it was seen to act.
        effective: Option<u64>,
        counts: BTreeMap<String, u64>,
        /// What it hurts; a stage direction hurts nothing.
        hurt: Option<Hurt>,
        /// The budget allows it no longer.
        ends: Instant,
    },
    Over,
}

/// All faults of a plan, by state.
pub(super) struct HeldFaults<'a> {
    faults: Vec<(&'a PlannedFault, State)>,
    budget: &'a Budget,
    /// All that was hurt so far, each by the fault that was the first.
    ever: BTreeMap<Hurt, String>,
    refused: bool,
    target: &'a dyn Target,
    recorder: Recorder,
    journal: Journal,
    /// Without it every lease ends.
    _renewal: Renewal,
}

impl<'a> HeldFaults<'a> {
    pub(super) fn new(plan: &'a Plan, target: &'a dyn Target, recorder: Recorder, journal: Journal) -> Self {
        for fault in &plan.faults {
            let what = match &fault.heal {
                Trigger::Never => format!("{} {}", fault.spec, fault.begin),
                heal => format!("{} {}, healed {heal}", fault.spec, fault.begin),
            };
            let event = FaultEvent::Described { what, is_stage_direction: fault.spec.is_stage_direction() };
            recorder.record(RecordKind::Fault { fault: fault.name.clone(), event });
        }
        let faults = plan.faults.iter().map(|fault| (fault, State::Waiting)).collect();
        let renewal = Renewal::start(journal.clone());
        Self {
            faults,
            budget: &plan.budget,
            ever: BTreeMap::new(),
            refused: false,
            target,
            recorder,
            journal,
            _renewal: renewal,
        }
    }

    /// Injects what is due, notices what has bitten, heals what is due. `is_due` decides about triggers.
    pub(super) async fn step(&mut self, facts: &Facts, job: Option<&str>, is_due: impl Fn(&Trigger) -> bool) {
        for position in 0..self.faults.len() {
            if self.refused {
                return;
            }
            let (fault, state) = &self.faults[position];
            match state {
                State::Waiting if is_due(&fault.begin) => self.inject(position, job, facts).await,
                State::Held { lease, .. } if lease.is_lost() => self.heal(position).await,
                State::Held { ends, .. } if Instant::now() >= *ends => {
                    let text = format!("`{}` was healed because the plan's budget allows it no longer", fault.name);
                    self.recorder.record(RecordKind::Note { text });
                    self.heal(position).await;
                }
                State::Held { effective: None, .. } => self.observe(position, facts).await,
                // Not before it has bitten, else it might never.
                State::Held { effective: Some(look), .. } if facts.held_after(&fault.heal, *look) => {
                    self.heal(position).await;
                }
                _ => {}
            }
        }
    }

    /// True if a fault was not injected because it would have hurt too much: nothing more is to be broken.
    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Heals whatever is still held, newest first.
    pub(super) async fn heal_all(&mut self) {
        for position in (0..self.faults.len()).rev() {
            if matches!(self.faults[position].1, State::Held { .. }) {
                self.heal(position).await;
            }
        }
    }

    async fn inject(&mut self, position: usize, job: Option<&str>, facts: &Facts) {
        let fault = self.faults[position].0;
        let timeline = self.recorder.timeline();
        let resolved = self.target.fault(&fault.spec, &timeline, job, &fault.name).await;
        let (made, losses) = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return self.broke(position, "find the victim of", &error),
        };
        let hurt = (!fault.spec.is_stage_direction())
            .then(|| Hurt { target: made.describe().target, is_executor: fault.spec.hurts_executor() });
        if let Some(hurt) = &hurt
            && let Err(over) = self.admit(&fault.name, hurt, &timeline)
        {
            self.recorder.record(RecordKind::Outcome { verdict: Verdict::Refused, reason: over.to_string() });
            self.faults[position].1 = State::Over;
            self.refused = true;
            return;
        }
        // Before it is done: the picture that a judgement starts from is the one before the fault.
        self.record(position, FaultEvent::Injected);
        match Lease::inject(made, &self.journal).await {
            Ok(lease) => {
                let since = facts.held_since(&fault.begin);
                let after_fact_ms = since.map(|since| self.recorder.now_ms().saturating_sub(since));
                self.record(position, FaultEvent::InPlace { after_fact_ms });
                if let Some(hurt) = hurt.clone() {
                    self.ever.entry(hurt).or_insert_with(|| fault.name.clone());
                }
                self.faults[position].1 = State::Held {
                    lease: Box::new(lease),
                    losses,
                    effective: None,
                    counts: BTreeMap::new(),
                    hurt,
                    ends: Instant::now() + self.budget.duration,
                };
                self.observe(position, facts).await;
            }
            Err(error) => self.broke(position, "inject", &error),
        }
    }

    /// Whether the budget allows what was found to be hurt by `fault`.
    fn admit(&self, fault: &str, asked: &Hurt, timeline: &Timeline) -> Result<(), OverBudget> {
        let hurt = |(by, state): &(&PlannedFault, State)| match state {
            State::Held { hurt, .. } => hurt.clone().map(|hurt| (hurt, by.name.clone())),
            State::Waiting | State::Over => None,
        };
        let now: Vec<(Hurt, String)> = self.faults.iter().filter_map(hurt).collect();
        let executors = timeline.records().iter().filter_map(|record| match &record.kind {
            RecordKind::ExecutorRegistered { executor, .. } => Some(executor),
            _ => None,
        });
        let executors = executors.collect::<BTreeSet<_>>().len();
        self.budget.admit(fault, asked, &now, &self.ever, executors)
    }

    async fn observe(&mut self, position: usize, facts: &Facts) {
        let State::Held { lease, losses, effective, counts, .. } = &mut self.faults[position].1 else { return };
        match lease.effect().await {
            Ok(effect) if effect.bites => {
                *effective = Some(facts.looks());
                let losses = losses.clone();
                counts.clone_from(&effect.counts);
                let counts = counts.clone();
                self.record(position, FaultEvent::Effective { losses });
                self.record_effects(position, counts);
            }
            Ok(_) => {}
            Err(error) => {
                self.record(position, FaultEvent::Broke { step: "observe".to_owned(), error: chain(&error) });
                // It is in nobody's hands otherwise until the run is over.
                self.heal(position).await;
            }
        }
    }

    async fn heal(&mut self, position: usize) {
        let state = std::mem::replace(&mut self.faults[position].1, State::Over);
        let State::Held { lease, counts, .. } = state else { return };
        match lease.heal(HEAL_DEADLINE).await {
            Ok(effect) => {
                // What it did after it was first seen to act.
                let grown = effect.counts.into_iter().filter(|(what, count)| counts.get(what) != Some(count));
                self.record_effects(position, grown);
                self.record(position, FaultEvent::Healed);
                self.record(position, FaultEvent::HealVerified);
            }
            Err(error) => self.broke(position, "heal", &error),
        }
    }

    fn broke(&mut self, position: usize, step: &str, error: &(dyn std::error::Error + 'static)) {
        self.record(position, FaultEvent::Broke { step: step.to_owned(), error: chain(error) });
        self.faults[position].1 = State::Over;
    }

    fn record_effects(&self, position: usize, counts: impl IntoIterator<Item = (String, u64)>) {
        for (what, count) in counts {
            self.record(position, FaultEvent::Effects { count, what: what.replace('_', " ") });
        }
    }

    fn record(&self, position: usize, event: FaultEvent) {
        self.recorder.record(RecordKind::Fault { fault: self.faults[position].0.name.clone(), event });
    }
}
