//! Typing errors.

use strsim::osa_distance;

/// The known name that is closest to a mistyped one, if any is close.
pub(crate) fn nearest<'n>(typed: &str, known: &[&'n str]) -> Option<&'n str> {
    known
        .iter()
        .map(|name| (osa_distance(typed, name), *name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(2))
        .min()
        .map(|(_, name)| name)
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
