//! "Did you mean …?"

use strsim::osa_distance;

/// The known word nearest to `word`, if it is near enough to be what was meant: no more than a third of it wrong, or
/// the same last part (`failover-strategy` for `jobmanager.execution.failover-strategy`).
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = known.into_iter().collect();
    let (distance, best) = known.iter().map(|candidate| (osa_distance(word, candidate), *candidate)).min()?;
    if distance * 3 <= word.chars().count() {
        return Some(best);
    }
    let mut same_end = known.iter().filter(|candidate| candidate.ends_with(&format!(".{word}")));
    match (same_end.next(), same_end.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_is_near() {
        let known = ["heartbeat.interval", "heartbeat.timeout", "slot.request.timeout"];
        assert_eq!(nearest("heartbeat.timout", known), Some("heartbeat.timeout"));
        assert_eq!(nearest("interval", known), Some("heartbeat.interval"));
        assert_eq!(nearest("timeout", known), None, "two keys end like this");
        assert_eq!(nearest("parallelism.default", known), None);
    }
}
