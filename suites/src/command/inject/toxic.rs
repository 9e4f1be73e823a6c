//! The toxic that was asked for: its type and its values are checked before the first call. No server is asked whether
//! they make sense, for a real Toxiproxy ends at some of them (P68) and ignores others.

use std::collections::BTreeMap;

use stormproof::chaos::toxiproxy::Toxic;
use stormproof::chaos::toxiproxy::toxic::attributes::{Attributes, TYPES};
use stormproof::nearest::nearest;

use super::arguments::ToxicArguments;
use crate::command::{CommandError, settings};

/// Largest value of an attribute: in the smallest unit that a server counts in (milliseconds in nanoseconds) it still
/// fits into 64 bits.
const LARGEST: i64 = i64::MAX / 1_000_000;

/// The toxic of these arguments, if it would do what they say.
pub(super) fn toxic(arguments: &ToxicArguments) -> Result<Toxic, CommandError> {
    let kind = &arguments.kind;
    let known = Attributes::of_type(kind).ok_or_else(|| CommandError::usage(unknown(kind)))?;
    let texts = settings::pairs("--attribute", &arguments.attributes)?;
    let toxic = Toxic::of_kind(kind, arguments.stream).with_toxicity(arguments.toxicity);
    // What is misspelt first: its value says nothing.
    let named = texts.keys().fold(toxic.clone(), |toxic, name| toxic.with(name, 0));
    named.check().map_err(|error| CommandError::bad_input(&error))?;
    let values = values(known, &texts).map_err(|problem| CommandError::usage(format!("a {kind} toxic: {problem}")))?;
    Ok(values.into_iter().fold(toxic, |toxic, (name, value)| toxic.with(name, value)))
}

/// Whether a server that is not ours knows what ours has beyond Toxiproxy.
pub(super) fn check_real(toxic: &Toxic, api: &str) -> Result<(), CommandError> {
    let of_ours = |what: &str, instead: &str| {
        Err(CommandError::usage(format!("{what} is our own proxy's, and {api} is another server; {instead}")))
    };
    if toxic.kind == "hold" {
        return of_ours("the type hold", "timeout with timeout=0 lets nothing pass either, but loses it");
    }
    match toxic.attributes.keys().find(|name| name.eq_ignore_ascii_case("deadline")) {
        Some(_) => of_ours("the attribute deadline", "leave it out"),
        None => Ok(()),
    }
}

fn values(mut known: Attributes, texts: &BTreeMap<String, String>) -> Result<BTreeMap<String, i64>, String> {
    let mut values = BTreeMap::new();
    for (name, text) in texts {
        let value = text.parse::<i64>().ok().filter(|value| *value <= LARGEST);
        let value =
            value.ok_or_else(|| format!("attribute {name} is `{text}`; write a whole number of at most {LARGEST}"))?;
        let slot = known.fields().into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        slot.into_iter().for_each(|(_, slot)| *slot = value);
        values.insert(name.clone(), value);
    }
    known.check().map(|()| values)
}

/// What to do about a type that does not exist.
fn unknown(kind: &str) -> String {
    let instead = match kind.to_lowercase().replace('-', "_").as_str() {
        "packet_loss" | "loss" => "; a proxy passes on a stream of bytes and knows no packets: to a program, lost ones \
            are a delay (latency with jitter), a stall (bandwidth with rate=0) or a broken connection (timeout, reset_peer)"
            .to_owned(),
        "down" => "; `stormproof inject refuse` disables a proxy".to_owned(),
        _ => nearest(kind, TYPES.into_iter()),
    };
    format!("there is no toxic of type `{kind}`{instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(kind: &str, pairs: &[&str]) -> Result<BTreeMap<String, i64>, String> {
        let pairs: Vec<String> = pairs.iter().map(ToString::to_string).collect();
        values(Attributes::of_type(kind).expect(kind), &settings::pairs("-a", &pairs).expect("pairs"))
    }

    #[test]
    fn values_that_end_a_real_toxiproxy_are_refused_here() {
        // P68
        let doubled_overflows = format!("jitter={}", i64::MAX / 2 + 1);
        let refused: [(&str, &[&str], &str); 8] = [
            ("bandwidth", &["rate=-1"], "must not be negative"),
            ("slicer", &["average_size=5", "size_variation=9"], "must be below average_size"),
            ("slicer", &["average_size=0"], "at least 1 byte"),
            ("latency", &["latency=abc"], "attribute latency is `abc`; write a whole number"),
            ("latency", &["latency=1.5"], "whole number"),
            ("latency", &["LATENCY=-5"], "must not be negative"),
            ("latency", &["latency=1", &doubled_overflows], "at most"),
            ("limit_data", &["bytes=99999999999999999999"], "at most"),
        ];
        for (kind, pairs, why) in refused {
            let problem = checked(kind, pairs).expect_err(kind);
            assert!(problem.contains(why), "{problem}");
        }
        assert_eq!(checked("bandwidth", &["rate=0"]), Ok(BTreeMap::from([("rate".to_owned(), 0)])), "a stall");
    }

    #[test]
    fn a_type_that_does_not_exist_is_answered_with_what_to_take() {
        assert_eq!(unknown("LATENCY"), "there is no toxic of type `LATENCY`; did you mean `latency`?");
        assert!(unknown("packet-loss").contains("knows no packets"));
        assert!(unknown("down").contains("inject refuse"));
        assert!(unknown("xyzzyx").contains("there is `latency`, `bandwidth`"));
    }
}
