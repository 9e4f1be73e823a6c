//! `key=value` pairs on the command line.

use std::collections::BTreeMap;

use super::CommandError;

/// Reads `key=value` pairs; a later one of the same key wins.
pub(super) fn pairs(flag: &str, given: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    given
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(CommandError::usage(format!("`{flag} {pair}` is not of the form {flag} key=value"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_hold_an_equals_sign() {
        let pairs = pairs("-p", &["filter=a=b".to_owned()]).expect("read");
        assert_eq!(pairs["filter"], "a=b");
    }

    #[test]
    fn a_pair_without_a_value_is_refused_with_its_text() {
        let error = pairs("-p", &["records".to_owned()]).expect_err("refused");
        assert_eq!(error.code, stormproof::verdict::EXIT_USAGE);
        assert!(error.message.contains("-p records"), "{}", error.message);
    }
}
