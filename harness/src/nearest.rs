//! "Did you mean …?", for names that people type.

use strsim::osa_distance;

/// Longest list of names in a message.
const LISTED: usize = 8;

/// Longest name that distances are worked out for, bytes: they cost the product of two lengths.
const LONGEST: usize = 256;

/// The end of a sentence that said `wanted` does not exist: the name of `known` that may be meant, else what there is.
#[must_use]
pub fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let lower = wanted.to_lowercase();
    let close = known.iter().filter(|name| name.len() <= LONGEST && wanted.len() <= LONGEST).min_by_key(|name| {
        let candidate = name.to_lowercase();
        let is_part = !lower.is_empty() && (candidate.contains(&lower) || lower.contains(&candidate));
        (!is_part, osa_distance(&lower, &candidate))
    });
    if let Some(name) = close {
        let candidate = name.to_lowercase();
        let is_part = !lower.is_empty() && candidate.contains(&lower);
        if is_part || osa_distance(&lower, &candidate) * 2 <= lower.chars().count() + 1 {
            return format!("; did you mean `{name}`?");
        }
    }
    let mut listed = known.iter().take(LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if known.len() > LISTED {
        listed.push_str(&format!(" and {} more", known.len() - LISTED));
    }
    if listed.is_empty() { "; there is none".to_owned() } else { format!("; there is {listed}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_or_the_list() {
        let names = || ["Source: src -> gen", "mid", "out -> sink"].into_iter();
        assert_eq!(nearest("src", names()), "; did you mean `Source: src -> gen`?");
        assert_eq!(nearest("Mdi", names()), "; did you mean `mid`?");
        assert_eq!(nearest("zzzz", names()), "; there is `Source: src -> gen`, `mid`, `out -> sink`");
        assert_eq!(nearest("x", std::iter::empty()), "; there is none");
        let many: Vec<String> = (0..20).map(|n| format!("operator-{n}")).collect();
        assert!(nearest("zzzzz", many.iter().map(String::as_str)).ends_with(" and 12 more"));
    }
}
