//! Names that people type: parsed, found, or answered with the nearest that exists.

/// Cuts `vertex/3` or `vertex[3]`. Vertex names may contain either sign themselves.
pub(super) fn task(text: &str) -> Option<(&str, u32)> {
    let (vertex, subtask) = match text.strip_suffix(']') {
        Some(open) => open.rsplit_once('[')?,
        None => text.rsplit_once('/')?,
    };
    Some((vertex, subtask.trim().parse().ok()?))
}

/// A partition as typed: which vertex and which of its data sets is left open, for `a.0` may be either's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PartitionText<'a> {
    /// `vertex`, or `vertex.dataset`.
    pub(super) set: &'a str,
    /// Given behind the subtask, as in `vertex[3].0`.
    pub(super) data_set: Option<u32>,
    pub(super) subtask: u32,
}

/// Cuts `vertex.0/3`, `vertex[3].0` (as trees show it), and both without the data set where there is but one.
pub(super) fn partition(text: &str) -> Option<PartitionText<'_>> {
    if let Some((producer, data_set)) = text.rsplit_once("].") {
        let (set, subtask) = producer.rsplit_once('[')?;
        return Some(PartitionText { set, data_set: Some(data_set.parse().ok()?), subtask: subtask.parse().ok()? });
    }
    let (set, subtask) = task(text)?;
    Some(PartitionText { set, data_set: None, subtask })
}

/// Longest list of names in a message.
const LISTED: usize = 8;

/// Longest name that distances are worked out for, bytes: they cost the product of two lengths.
const LONGEST: usize = 256;

/// The end of a sentence that said `wanted` does not exist.
pub(crate) fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let lower = wanted.to_lowercase();
    let close = known.iter().filter(|name| name.len() <= LONGEST && wanted.len() <= LONGEST).min_by_key(|name| {
        let candidate = name.to_lowercase();
        let is_part = !lower.is_empty() && (candidate.contains(&lower) || lower.contains(&candidate));
        (!is_part, distance(&lower, &candidate))
    });
    if let Some(name) = close {
        let candidate = name.to_lowercase();
        let is_part = !lower.is_empty() && candidate.contains(&lower);
        if is_part || distance(&lower, &candidate) * 2 <= lower.chars().count() + 1 {
            return format!("; did you mean `{name}`?");
        }
    }
    let mut listed = known.iter().take(LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if known.len() > LISTED {
        listed.push_str(&format!(" and {} more", known.len() - LISTED));
    }
    if listed.is_empty() { "; there is none".to_owned() } else { format!("; there is {listed}") }
}

/// Insertions, deletions and replacements from one text to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_partitions_are_cut_at_the_last_sign() {
        assert_eq!(task("Source: a/b -> c[d]/12"), Some(("Source: a/b -> c[d]", 12)));
        assert_eq!(task("map[1]"), Some(("map", 1)));
        for wrong in ["map", "map/", "map/x", "map/-1", "map[1", "map1]", "map/4294967296", ""] {
            assert_eq!(task(wrong), None, "{wrong}");
        }
        let cut = |set, data_set, subtask| Some(PartitionText { set, data_set, subtask });
        assert_eq!(partition("map.0/3"), cut("map.0", None, 3));
        assert_eq!(partition("map[3].0"), cut("map", Some(0), 3));
        assert_eq!(partition("map[3]"), cut("map", None, 3));
        assert_eq!(partition("map[3].x"), None);
        assert_eq!(partition("map"), None);
    }

    #[test]
    fn the_nearest_name_is_offered_or_the_list() {
        let names = || ["Source: src -> gen", "mid", "out -> sink"].into_iter();
        assert_eq!(nearest("src", names()), "; did you mean `Source: src -> gen`?");
        assert_eq!(nearest("Mdi", names()), "; did you mean `mid`?");
        assert_eq!(nearest("zzzz", names()), "; there is `Source: src -> gen`, `mid`, `out -> sink`");
        assert_eq!(nearest("x", std::iter::empty()), "; there is none");
        let many: Vec<String> = (0..20).map(|n| format!("operator-{n}")).collect();
        assert!(nearest("zzzzz", many.iter().map(String::as_str)).ends_with(" and 12 more"));
        assert_eq!((distance("kitten", "sitting"), distance("", "abc")), (3, 3));
    }
}
