//! Numbers of things, in words.

use std::fmt::Display;

/// `1 suite`, `2 suites`.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    let s = if number == N::from(1) { "" } else { "s" };
    format!("{number} {one}{s}")
}
