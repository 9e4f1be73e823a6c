//! Which store and which proxy a bundled cluster is made with: ours, or real ones.

use std::path::{Path, PathBuf};

use stormproof_chaos::part::{PartMissing, RealPart, is_executable};

/// The word for our own part.
const EMBEDDED: &str = "embedded";

/// One part: ours, within the runner's process, or a real one, a process of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PartChoice {
    /// Ours.
    #[default]
    Embedded,
    /// This program.
    Real(PathBuf),
}

/// Store and proxy of a bundled cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartChoices {
    /// The checkpoint store: MinIO if it is a real one.
    pub store: PartChoice,
    /// The proxy in front of it: Toxiproxy if it is a real one.
    pub proxy: PartChoice,
}

/// A part was asked for that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// It is not on this machine.
    #[error(transparent)]
    Missing(#[from] PartMissing),
    /// No part is called so.
    #[error("the {what} cannot be `{text}`; say `embedded`, `{real}` or the path of a program")]
    Unknown {
        /// `store` or `proxy`.
        what: &'static str,
        /// As given.
        text: String,
        /// Name of the real one.
        real: &'static str,
    },
    /// The path is no program.
    #[error("{} cannot be run as the {what}: it is no executable file", path.display())]
    NoProgram {
        /// `store` or `proxy`.
        what: &'static str,
        /// As given.
        path: PathBuf,
    },
}

impl PartChoices {
    /// Reads what a command line says of both: `embedded`, the real one's name, or a path.
    ///
    /// # Errors
    /// When it means nothing, or a part that is not there; the message says what to do.
    pub fn parse(store: &str, proxy: &str) -> Result<Self, ChoiceError> {
        Ok(Self {
            store: PartChoice::parse("store", "minio", RealPart::Minio, store)?,
            proxy: PartChoice::parse("proxy", "toxiproxy", RealPart::ToxiproxyServer, proxy)?,
        })
    }

    /// Name of the target in reports: `bundled`, and the real parts by name.
    #[must_use]
    pub fn target_name(&self) -> String {
        let real = [(&self.store, "minio"), (&self.proxy, "toxiproxy")];
        let names = real.into_iter().filter(|(choice, _)| **choice != PartChoice::Embedded).map(|(_, name)| name);
        std::iter::once("bundled").chain(names).collect::<Vec<_>>().join("+")
    }
}

impl PartChoice {
    fn parse(what: &'static str, real: &'static str, part: RealPart, text: &str) -> Result<Self, ChoiceError> {
        let path = Path::new(text);
        match text {
            EMBEDDED => Ok(Self::Embedded),
            _ if text == real => Ok(Self::Real(part.find()?)),
            _ if !text.contains('/') => Err(ChoiceError::Unknown { what, text: text.to_owned(), real }),
            // Absolute, since the program is not started from here but by a child.
            _ if is_executable(path) => Ok(Self::Real(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))),
            _ => Err(ChoiceError::NoProgram { what, path: path.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_and_paths_are_read() {
        let choices = PartChoices::parse("embedded", "/bin/cat").expect("read");
        assert_eq!(choices.store, PartChoice::Embedded);
        assert_eq!(choices.proxy, PartChoice::Real("/bin/cat".into()));
        assert_eq!(choices.target_name(), "bundled+toxiproxy");
        assert_eq!(PartChoices::default().target_name(), "bundled");
    }

    #[test]
    fn what_cannot_be_used_says_what_can() {
        let error = PartChoices::parse("embedded", "toxi").expect_err("refused").to_string();
        assert_eq!(error, "the proxy cannot be `toxi`; say `embedded`, `toxiproxy` or the path of a program");
        let error = PartChoices::parse("./no-such-file", "embedded").expect_err("refused").to_string();
        assert_eq!(error, "./no-such-file cannot be run as the store: it is no executable file");
    }
}
