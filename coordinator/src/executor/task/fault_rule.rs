//! What a fault file may say: by which rule user code fails. Pure.

use std::ops::Range;

use serde::Deserialize;

/// Every record: the whole of [`FaultRule::per_million`].
const MILLION: u32 = 1_000_000;

/// A rule by which user code fails, one JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultRule {
    /// Not before the attempt has read (a source: written) this many records.
    #[serde(default)]
    after_records: u64,
    /// Of a million records, before how many it fails.
    #[serde(default = "always")]
    per_million: u32,
    /// Decides which records those are.
    #[serde(default)]
    seed: u64,
    /// How it fails.
    #[serde(default)]
    pub(super) kind: FaultKind,
    /// How often it fails, all attempts together.
    #[serde(default = "once")]
    pub(super) times: u64,
    /// The rule ends by itself then, in milliseconds since 1970.
    until_unix_ms: Option<u64>,
}

/// How user code fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FaultKind {
    /// With an error that a restart gets over.
    #[default]
    Recoverable,
    /// With an error that fails the job at once.
    NonRecoverable,
    /// With a panic.
    Panic,
}

fn always() -> u32 {
    MILLION
}

fn once() -> u64 {
    1
}

/// A fault file says something that is no rule.
#[derive(Debug, thiserror::Error)]
pub(super) enum MalformedRule {
    #[error("it is no JSON object of a rule")]
    Json(#[from] serde_json::Error),
    #[error("`per_million` is {0}, it must be from 1 to {MILLION}")]
    PerMillion(u32),
    #[error("`times` is 0, it must be at least 1")]
    Never,
}

impl FaultRule {
    pub(super) fn parse(content: &[u8]) -> Result<Self, MalformedRule> {
        let rule: Self = serde_json::from_slice(content)?;
        match rule {
            Self { per_million, .. } if per_million == 0 || per_million > MILLION => {
                Err(MalformedRule::PerMillion(per_million))
            }
            Self { times: 0, .. } => Err(MalformedRule::Never),
            rule => Ok(rule),
        }
    }

    /// True if the rule has ended by itself.
    pub(super) fn has_ended(&self, now_unix_ms: u64) -> bool {
        self.until_unix_ms.is_some_and(|until| until <= now_unix_ms)
    }

    /// True if the attempt has to fail before one of the records with these numbers, counted from 0. The same seed,
    /// attempt and record give the same answer; another attempt meets other records.
    pub(super) fn chooses(&self, attempt: u32, subtask: u32, mut records: Range<u64>) -> bool {
        if self.per_million == MILLION {
            // Also for one that was met before the rule was there.
            return self.after_records < records.end;
        }
        records.start = records.start.max(self.after_records);
        records.any(|record| draw([self.seed, u64::from(subtask), u64::from(attempt), record]) < self.per_million)
    }
}

/// A number below a million that depends on nothing but its arguments: FNV-1a over them, finished by SplitMix64.
fn draw(words: [u64; 4]) -> u32 {
    let bytes = words.map(u64::to_le_bytes);
    let mut hash = bytes
        .as_flattened()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // Below a million: it fits.
    ((hash ^ (hash >> 31)) % u64::from(MILLION)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: &str) -> FaultRule {
        FaultRule::parse(json.as_bytes()).unwrap()
    }

    /// The records before which an attempt of subtask 0 fails, of the first `count`.
    fn chosen(rule: &FaultRule, attempt: u32, count: u64) -> Vec<u64> {
        (0..count).filter(|record| rule.chooses(attempt, 0, *record..record + 1)).collect()
    }

    #[test]
    fn a_rule_counts_records_and_ends() {
        let rule = rule(r#"{"after_records": 3, "until_unix_ms": 100}"#);
        assert_eq!((rule.kind, rule.times), (FaultKind::Recoverable, 1));
        assert_eq!(chosen(&rule, 0, 6), [3, 4, 5]);
        assert!(!rule.chooses(0, 0, 0..3) && rule.chooses(0, 0, 0..4), "a source writes many at once");
        assert!(!rule.has_ended(99) && rule.has_ended(100));
    }

    #[test]
    fn a_share_is_drawn_from_seed_attempt_and_record_alone() {
        let ten_percent =
            |seed: u64| rule(&format!(r#"{{"per_million": 100000, "seed": {seed}, "after_records": 10}}"#));
        let first = chosen(&ten_percent(7), 0, 10_000);
        assert_eq!(first, chosen(&ten_percent(7), 0, 10_000));
        assert_ne!(first, chosen(&ten_percent(8), 0, 10_000));
        assert_ne!(first, chosen(&ten_percent(7), 1, 10_000), "another attempt gets past");
        assert!((800..1200).contains(&first.len()) && first[0] >= 10, "{} of 10000", first.len());
        // Looked at in one piece or record by record.
        let end = first[0] + 1;
        assert!(ten_percent(7).chooses(0, 0, 0..end) && !ten_percent(7).chooses(0, 0, 0..end - 1));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_reason() {
        for (content, reason) in [
            ("fail", "no JSON object"),
            ("{}x", "no JSON object"),
            (r#"{"after": 3}"#, "unknown field `after`"),
            (r#"{"kind": "explode"}"#, "unknown variant `explode`"),
            (r#"{"times": 0}"#, "`times` is 0"),
            (r#"{"per_million": 0}"#, "`per_million` is 0"),
            (r#"{"per_million": 1000001}"#, "`per_million` is 1000001"),
        ] {
            let error = crate::graph::TaskError::from_error(&FaultRule::parse(content.as_bytes()).unwrap_err());
            assert!(error.to_string().contains(reason), "{content}: {error}");
        }
    }
}
