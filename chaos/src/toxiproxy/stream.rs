//! The two directions of a connection.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// Which way bytes flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// From the client to the server.
    Upstream,
    /// From the server to the client; what a toxic gets when it names no stream.
    Downstream,
}

impl Stream {
    /// Both, in the order in which Toxiproxy lists toxics.
    pub const BOTH: [Stream; 2] = [Stream::Upstream, Stream::Downstream];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Upstream => "upstream",
            Stream::Downstream => "downstream",
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is neither `upstream` nor `downstream`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("stream was invalid, can be either upstream or downstream")]
pub struct UnknownStream;

impl FromStr for Stream {
    type Err = UnknownStream;

    /// Reads the word without regard to case (P34).
    fn from_str(word: &str) -> Result<Self, UnknownStream> {
        Stream::BOTH.into_iter().find(|stream| word.eq_ignore_ascii_case(stream.as_str())).ok_or(UnknownStream)
    }
}

impl<'de> Deserialize<'de> for Stream {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A server echoes the word as it was sent, so any case can come back.
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_does_not_matter_but_the_word_does() {
        // P33 P34
        assert_eq!("UpStream".parse(), Ok(Stream::Upstream));
        assert_eq!("DOWNSTREAM".parse(), Ok(Stream::Downstream));
        assert_eq!("".parse::<Stream>(), Err(UnknownStream));
        assert_eq!("sideways".parse::<Stream>(), Err(UnknownStream));
    }
}
