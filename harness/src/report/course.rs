//! The course of a run in lines: what a reader of a report wants to see of the timeline.

use serde::{Deserialize, Serialize};

use crate::timeline::{CheckpointEvent, FaultEvent, RecordKind, Timeline};

/// Most moments of a report; in the middle of a longer course some are left out, and a line says how many.
pub const MAX_MOMENTS: usize = 60;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Milliseconds since the run started.
    pub at_ms: u64,
    /// In words.
    pub what: String,
}

/// Faults, job states, restores, lost executors, failures and notes, in order.
#[must_use]
pub fn of(timeline: &Timeline) -> Vec<Moment> {
    let moment = |record: &crate::timeline::Record| Some(Moment { at_ms: record.at_ms, what: words(&record.kind)? });
    let mut moments: Vec<_> = timeline.records().iter().filter_map(moment).collect();
    if let Some(surplus) = moments.len().checked_sub(MAX_MOMENTS).filter(|surplus| *surplus > 0) {
        let middle = MAX_MOMENTS / 2;
        let at_ms = moments[middle].at_ms;
        let left_out = Moment { at_ms, what: format!("… {} moments left out, see timeline.jsonl", surplus + 1) };
        moments.splice(middle..=middle + surplus, [left_out]);
    }
    moments
}

fn words(kind: &RecordKind) -> Option<String> {
    let words = match kind {
        RecordKind::JobSubmitted { name, job } => format!("job {name} submitted as {job}"),
        RecordKind::JobStatus { status, .. } => format!("job {status}"),
        RecordKind::ExecutorRegistered { executor, pid: Some(pid) } => format!("{executor} registered (pid {pid})"),
        RecordKind::ExecutorRegistered { executor, pid: None } => format!("{executor} registered"),
        RecordKind::ExecutorLost { executor } => format!("{executor} lost"),
        RecordKind::Exception { name, task, message, .. } => {
            format!("failure of {}: {name}: {message}", task.as_deref().unwrap_or("the job"))
        }
        RecordKind::Checkpoint { id, event: CheckpointEvent::Restored, .. } => format!("restored from checkpoint {id}"),
        RecordKind::Checkpoint { id, event: CheckpointEvent::Failed { message }, .. } => {
            format!("checkpoint {id} failed: {message}")
        }
        RecordKind::Fault { fault, event } => return fault_words(fault, event),
        RecordKind::Note { text } => text.clone(),
        RecordKind::Outcome { verdict, reason } => format!("{verdict}: {reason}"),
        RecordKind::Dropped { count } => format!("{count} records did not fit"),
        _ => return None,
    };
    Some(words)
}

fn fault_words(fault: &str, event: &FaultEvent) -> Option<String> {
    match event {
        // Told by the oracle `faults`.
        FaultEvent::Described { .. } | FaultEvent::Effects { .. } => None,
        FaultEvent::Injected => Some(format!("fault {fault} injected")),
        FaultEvent::InPlace { after_fact_ms: None } => None,
        FaultEvent::InPlace { after_fact_ms: Some(ms) } => {
            Some(format!("fault {fault} in place, {ms} ms after its fact"))
        }
        FaultEvent::Effective { .. } => Some(format!("fault {fault} in effect")),
        FaultEvent::Healed => Some(format!("fault {fault} healed")),
        FaultEvent::HealVerified => Some(format!("fault {fault} verified to be gone")),
        FaultEvent::Broke { step, error } => Some(format!("fault {fault}: {step} failed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Record;

    #[test]
    fn a_long_course_keeps_its_begin_and_its_end() {
        let note = |seq: u64| Record { seq, at_ms: seq, wall_ms: 0, kind: RecordKind::Note { text: seq.to_string() } };
        let course = |count| of(&Timeline::new((0..count).map(note).collect()));
        assert_eq!(course(60).len(), 60);
        let long = course(1000);
        assert_eq!(long.len(), 60);
        assert_eq!((long[0].at_ms, long[29].at_ms, long[31].at_ms, long[59].at_ms), (0, 29, 971, 999));
        assert_eq!(long[30].what, "… 941 moments left out, see timeline.jsonl");
        assert_eq!(course(61)[30].what, "… 2 moments left out, see timeline.jsonl");
    }

    #[test]
    fn faults_and_states_are_told() {
        let moments = of(&super::super::sample::timeline("s", true, "FINISHED"));
        let what: Vec<_> = moments.iter().map(|moment| moment.what.as_str()).collect();
        assert_eq!(what[1..4], ["job RUNNING", "fault kill injected", "fault kill in effect"]);
        assert_eq!(what.last(), Some(&"job FINISHED"));
    }
}
