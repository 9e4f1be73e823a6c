//! Globs for buckets and keys.

/// Whether `text` (a bucket or a key) fits `glob`: `*` stands for any text, `/` included; `?` for one character;
/// everything else for itself.
#[must_use]
pub fn glob_matches(glob: &str, text: &str) -> bool {
    let glob: Vec<char> = glob.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut g, mut t) = (0, 0);
    // Where to go on when the text behind the last star does not fit: one character further.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some('*') => {
                retry = Some((g + 1, t));
                g += 1;
            }
            Some('?') => (g, t) = (g + 1, t + 1),
            Some(c) if *c == text[t] => (g, t) = (g + 1, t + 1),
            _ => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                (g, t) = (star, from + 1);
            }
        }
    }
    glob[g..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_cross_slashes() {
        for (glob, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*/_metadata", "chk/7/_metadata", true),
            ("*/_metadata", "_metadata", false),
            ("*/_metadata", "a/_metadata/b", false),
            ("a?c*", "aéc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxaxb", true),
            ("*aab", "aaaab", true),
            ("*aab", "aaaba", false),
            ("lit[1]", "lit[1]", true),
        ] {
            assert_eq!(glob_matches(glob, text), expected, "{glob} on {text}");
        }
    }
}
