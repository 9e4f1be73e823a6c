//! Whether a toxic would do what its attributes say. No server asks: all of them ignore what they do not know, and take
//! what is absent for 0.

use super::Toxic;
use crate::toxiproxy::clients;
use crate::toxiproxy::toxic::Attributes;

/// A toxic that would not do what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadToxic {
    /// It would be ignored.
    #[error("a {kind} toxic has no attribute {attribute}; it has {has}")]
    Unknown {
        /// The type.
        kind: String,
        /// What was given.
        attribute: String,
        /// What there is.
        has: String,
    },
    /// It would do nothing, or nothing that anybody asks for.
    #[error("a {kind} toxic needs the attribute {attribute}; it has {has}")]
    Missing {
        /// The type.
        kind: String,
        /// What must be given.
        attribute: &'static str,
        /// What there is.
        has: String,
    },
}

impl BadToxic {
    pub(crate) fn unknown(kind: &str, attribute: &str, known: &[&str]) -> Self {
        Self::Unknown { kind: kind.to_owned(), attribute: attribute.to_owned(), has: list(known) }
    }
}

impl Toxic {
    /// Whether it has the attributes of its type: none that is unknown, and the one that matters. A type that is not
    /// known here is the server's business, as the values are.
    ///
    /// # Errors
    ///
    /// [`BadToxic`], with the attributes that the type has.
    pub fn check(&self) -> Result<(), BadToxic> {
        let Some(mut attributes) = Attributes::of_type(&self.kind) else { return Ok(()) };
        let mut known: Vec<&str> = attributes.fields().into_iter().map(|(name, _)| name).collect();
        known.push(clients::ATTRIBUTE);
        // Go does not mind capital letters.
        let mut given = self.attributes.keys();
        if let Some(unknown) = given.find(|name| !known.iter().any(|known| known.eq_ignore_ascii_case(name))) {
            return Err(BadToxic::unknown(&self.kind, unknown, &known));
        }
        match attributes.main_field() {
            Some(main) if !self.attributes.keys().any(|name| name.eq_ignore_ascii_case(main)) => {
                Err(BadToxic::Missing { kind: self.kind.clone(), attribute: main, has: list(&known) })
            }
            _ => Ok(()),
        }
    }
}

fn list(known: &[&str]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toxiproxy::Stream;
    use crate::toxiproxy::toxic::attributes::TYPES;

    fn toxic(kind: &str) -> Toxic {
        Toxic::of_kind(kind, Stream::Upstream)
    }

    #[test]
    fn a_misspelt_attribute_is_refused_for_every_type() {
        for kind in TYPES {
            let error = toxic(kind).with("latncy", 5).check().expect_err(kind).to_string();
            assert!(error.starts_with(&format!("a {kind} toxic has no attribute latncy; it has ")), "{error}");
        }
        assert_eq!(toxic("latency").with("LATENCY", 5).with("jitter", 1).check(), Ok(()));
        assert_eq!(toxic("of_somebody_else").with("any", 5).check(), Ok(()));
    }

    #[test]
    fn what_would_do_nothing_is_refused() {
        let refused: Vec<&str> = TYPES.into_iter().filter(|kind| toxic(kind).check().is_err()).collect();
        assert_eq!(refused, ["latency", "bandwidth", "slow_close", "slicer", "limit_data", "limit_time"]);
        let error = toxic("slicer").with("delay", 5).check().expect_err("no size").to_string();
        assert_eq!(
            error,
            "a slicer toxic needs the attribute average_size; it has average_size, size_variation, delay, clients"
        );
        assert_eq!(toxic("bandwidth").with("rate", 0).check(), Ok(()), "a stall that was asked for");
    }
}
