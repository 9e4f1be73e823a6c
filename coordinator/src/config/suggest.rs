//! "Did you mean …?"

/// Number of single-character insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
pub(super) fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = last;
        last = row;
    }
    last[b.len()]
}

/// The known word nearest to `word`, if it is near enough to be what was meant: no more than a third of it wrong, or
/// the same last part (`failover-strategy` for `jobmanager.execution.failover-strategy`).
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = known.into_iter().collect();
    let (distance, best) = known.iter().map(|candidate| (edit_distance(word, candidate), *candidate)).min()?;
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
    fn counts_edits() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("timeout", "timout"), 1);
        assert_eq!(edit_distance("interval", "intevral"), 1);
        assert_eq!(edit_distance("same", "same"), 0);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }

    #[test]
    fn suggests_only_what_is_near() {
        let known = ["heartbeat.interval", "heartbeat.timeout", "slot.request.timeout"];
        assert_eq!(nearest("heartbeat.timout", known), Some("heartbeat.timeout"));
        assert_eq!(nearest("interval", known), Some("heartbeat.interval"));
        assert_eq!(nearest("timeout", known), None, "two keys end like this");
        assert_eq!(nearest("parallelism.default", known), None);
    }
}
