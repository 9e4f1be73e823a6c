//! Typing errors.

/// The known name that is closest to a mistyped one, if any is close.
pub(crate) fn nearest<'n>(typed: &str, known: &[&'n str]) -> Option<&'n str> {
    known
        .iter()
        .map(|name| (distance(typed, name), *name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(2))
        .min()
        .map(|(_, name)| name)
}

fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, typed) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, wanted) in right.iter().enumerate() {
            let change = diagonal + usize::from(typed != *wanted);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        assert_eq!(nearest("latancy", &["latency", "jitter"]), Some("latency"));
        assert_eq!(nearest("xyz", &["latency", "jitter"]), None);
    }
}
