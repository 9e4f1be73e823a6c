//! Names by which what is ours is told from what is not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A tag that nothing else has on this machine: the process id, and a number that rises with every call. It is the
/// time in nanoseconds, unless the clock stood still or was set back.
///
/// ```
/// let tag = stormproof_chaos::tag::new_tag();
/// assert!(tag.starts_with(&format!("{}-", std::process::id())));
/// ```
#[must_use]
pub fn new_tag() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since_epoch.as_nanos()).unwrap_or_default();
    format!("{}-{:x}", std::process::id(), next(&LAST, now))
}

/// `now`, or one more than the last answer if that is not earlier than `now`.
fn next(last: &AtomicU64, now: u64) -> u64 {
    let after = |last: u64| now.max(last + 1);
    let before = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
    after(before.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_stands_still_or_goes_back_gives_no_tag_twice() {
        let last = AtomicU64::new(0);
        let given: Vec<_> = [7, 7, 5, 9, 8].into_iter().map(|now| next(&last, now)).collect();
        assert_eq!(given, [7, 8, 9, 10, 11]);
    }
}
