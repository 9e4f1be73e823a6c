//! `connect_blackhole` and `connect_refuse`, beyond Toxiproxy: what a new client meets before its upstream is dialled.
//! Connections that are open already are left alone.

use serde::Serialize;

/// Attributes of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Connect {
    /// How many connections it acts on, counted from when it was added, in order of accept; the next ones are left alone.
    /// 0: all.
    pub first: i64,
}

/// What happens to a client instead of a dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// It stays connected and hears nothing, and the upstream is dialled only once the toxic has gone.
    Blackhole,
    /// It is reset at once.
    Refuse,
}

impl Connect {
    /// Whether it acts on one more connection, when it has acted on so many.
    #[must_use]
    pub fn takes(self, before: u64) -> bool {
        u64::try_from(self.first).is_ok_and(|first| first == 0 || before < first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ones_are_counted() {
        assert!(Connect { first: 0 }.takes(1_000));
        assert!(Connect { first: 2 }.takes(1));
        assert!(!Connect { first: 2 }.takes(2));
    }
}
