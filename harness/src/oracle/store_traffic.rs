//! How many requests of a kind reached the object store?

use std::collections::{BTreeMap, BTreeSet};

use super::expectation::StoreTraffic as Params;
use super::{Judgement, faults, judgement};
use crate::timeline::{CheckpointEvent, RecordKind, Timeline};
use crate::verdict::Verdict;

const ORACLE: &str = "store-traffic";

/// Judges the store's request ledger. Without any request in the whole run it says nothing: then nobody kept a
/// ledger. Too few requests fail only if all faults had an effect: nothing else may have asked for them.
#[must_use]
pub fn judge(timeline: &Timeline, params: &Params) -> Judgement {
    let has_ledger = timeline.records().iter().any(|record| matches!(record.kind, RecordKind::StoreRequest { .. }));
    if !has_ledger {
        return judgement(
            ORACLE,
            Verdict::Inconclusive,
            "no store request was recorded in the whole run".into(),
            vec![],
        );
    }
    let records = match timeline.window(&params.window) {
        Ok(records) => records,
        Err(mark) => return judgement(ORACLE, Verdict::Inconclusive, format!("{mark:?} never came"), vec![]),
    };
    let restored = restored_folders(timeline);
    if params.of_restored && restored.is_empty() {
        return judgement(ORACLE, Verdict::Inconclusive, "no checkpoint was restored".into(), vec![]);
    }
    let mut counts: BTreeMap<(&str, &str, u16), u64> = BTreeMap::new();
    for record in records {
        if let RecordKind::StoreRequest { op, key, status, .. } = &record.kind
            && params.op.as_ref().is_none_or(|wanted| wanted == op)
            && key.contains(&params.key_contains)
            && (!params.of_restored || restored.iter().any(|folder| key.contains(folder)))
        {
            *counts.entry((op, key, *status)).or_default() += 1;
        }
    }
    let count: u64 = counts.values().sum();
    let what = params.op.as_deref().unwrap_or("all operations");
    let keys =
        if params.key_contains.is_empty() { String::new() } else { format!(" of keys with `{}`", params.key_contains) };
    let limits = match params.max {
        Some(max) => format!("from {} to {max}", params.min),
        None => format!("at least {}", params.min),
    };
    let (verdict, why) = if params.max.is_some_and(|max| count > max) {
        (Verdict::Fail, String::new())
    } else if count < params.min {
        faults::missing(timeline)
    } else {
        (Verdict::Pass, String::new())
    };
    let evidence = counts.iter().map(|((op, key, status), count)| format!("{count} × {op} {key} → {status}")).collect();
    judgement(ORACLE, verdict, format!("{count} requests ({what}{keys}), expected {limits}{why}"), evidence)
}

/// The parts of keys that say which checkpoints were restored, e.g. `/chk-3/`.
fn restored_folders(timeline: &Timeline) -> BTreeSet<String> {
    let restored = timeline.records().iter().filter_map(|record| match &record.kind {
        RecordKind::Checkpoint { id, event: CheckpointEvent::Restored, .. } => Some(format!("/chk-{id}/")),
        _ => None,
    });
    restored.collect()
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::timeline::{FaultEvent, Mark, Window};

    fn request(story: &mut Story, op: &str, key: &str) {
        story.record(RecordKind::StoreRequest { op: op.into(), key: key.into(), status: 200, bytes: 9 });
    }

    #[test]
    fn metadata_must_not_be_read_after_the_failover() {
        let mut story = Story::new();
        request(&mut story, "GetObject", "j/chk-3/_metadata");
        story.status("RESTARTING");
        request(&mut story, "PutObject", "j/chk-4/_metadata");
        request(&mut story, "GetObject", "j/chk-3/state-1");
        let params = Params {
            op: Some("GetObject".into()),
            key_contains: "_metadata".into(),
            window: Window { from: Mark::JobStatus("RESTARTING".into()), to: Mark::End },
            max: Some(0),
            ..Params::default()
        };
        assert_eq!(judge(&story.timeline(), &params).verdict, Verdict::Pass);
        request(&mut story, "GetObject", "j/chk-3/_metadata");
        let judgement = judge(&story.timeline(), &params);
        assert_eq!(judgement.verdict, Verdict::Fail);
        assert_eq!(judgement.summary, "1 requests (GetObject of keys with `_metadata`), expected from 0 to 0");
        assert_eq!(judgement.evidence, ["1 × GetObject j/chk-3/_metadata → 200"]);
    }

    #[test]
    fn a_read_back_of_another_checkpoint_is_no_read_for_the_failover() {
        let mut story = Story::new();
        request(&mut story, "GetObject", "j/chk-4/_metadata");
        let params = Params { of_restored: true, max: Some(0), ..Params::default() };
        assert_eq!(judge(&story.timeline(), &params).verdict, Verdict::Inconclusive, "nothing was restored");
        story.record(RecordKind::Checkpoint { job: "j".into(), id: 3, event: CheckpointEvent::Restored });
        assert_eq!(judge(&story.timeline(), &params).verdict, Verdict::Pass);
        request(&mut story, "GetObject", "j/chk-3/_metadata");
        assert_eq!(judge(&story.timeline(), &params).verdict, Verdict::Fail);
    }

    #[test]
    fn no_ledger_is_not_no_traffic() {
        let params = Params { max: Some(0), ..Params::default() };
        assert_eq!(judge(&Story::new().timeline(), &params).verdict, Verdict::Inconclusive);
    }

    #[test]
    fn too_little_traffic_fails_too() {
        let mut story = Story::new();
        request(&mut story, "GetObject", "a");
        let verdict =
            |story: &Story, min, max| judge(&story.timeline(), &Params { min, max, ..Params::default() }).verdict;
        assert_eq!((verdict(&story, 1, None), verdict(&story, 2, None)), (Verdict::Pass, Verdict::Fail));
        story.event("idle", FaultEvent::Described { what: String::new(), is_stage_direction: false });
        assert_eq!(verdict(&story, 2, None), Verdict::Vacuous);
        assert_eq!(verdict(&story, 0, Some(0)), Verdict::Fail, "too much is too much");
    }
}
