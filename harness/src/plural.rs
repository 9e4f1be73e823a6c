//! Numbers of things, in words.

use std::fmt::Display;

/// `1 suite`, `2 suites`.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    let s = if number == N::from(1) { "" } else { "s" };
    format!("{number} {one}{s}")
}

/// A count of a fault's effects by its name, e.g. `processes_stopped`: `1 process stopped`, `2 processes stopped`.
#[must_use]
pub fn effects(count: u64, name: &str) -> String {
    let (things, did) = name.split_once(['_', ' ']).unwrap_or((name, ""));
    let one = things.strip_suffix("sses").map(|stem| format!("{stem}ss"));
    let one = one.or_else(|| things.strip_suffix('s').map(ToOwned::to_owned));
    let things = one.filter(|_| count == 1).unwrap_or_else(|| things.to_owned());
    format!("{count} {things} {}", did.replace('_', " ")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0_u32, 1, 2].map(|number| counted(number, "suite")), ["0 suites", "1 suite", "2 suites"]);
        let told = |name| [1, 2].map(|count| effects(count, name));
        assert_eq!(told("processes_stopped"), ["1 process stopped", "2 processes stopped"]);
        assert_eq!(told("connections hit"), ["1 connection hit", "2 connections hit"]);
        assert_eq!(told("stops"), ["1 stop", "2 stops"]);
        assert_eq!(told("exit_code"), ["1 exit code", "2 exit code"], "no number of things");
    }
}
