//! Names that people type, cut into their parts.

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
}
