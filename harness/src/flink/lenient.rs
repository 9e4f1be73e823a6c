//! Numbers as Flink writes them: `"NaN"` where there is no data, null, floats for counts, `-1` for "not yet".

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A whole number; anything else reads as the default.
///
/// # Errors
/// Only if the input is not JSON at all.
pub fn int<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Value::deserialize(deserializer).map(|value| as_int(&value).unwrap_or_default())
}

/// A count; negative and missing numbers read as 0.
///
/// # Errors
/// Only if the input is not JSON at all.
pub fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    int(deserializer).map(|number| u64::try_from(number).unwrap_or(0))
}

/// A count that fits 32 bits; what does not reads as 0.
///
/// # Errors
/// Only if the input is not JSON at all.
pub fn small<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    int(deserializer).map(|number| u32::try_from(number).unwrap_or(0))
}

/// A number, or `None` for `"NaN"`, null and anything else.
///
/// # Errors
/// Only if the input is not JSON at all.
pub fn float<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Value::deserialize(deserializer).map(|value| as_float(&value))
}

/// A text; null reads as empty.
///
/// # Errors
/// If it is something else than text or null.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A list; null reads as empty.
///
/// # Errors
/// If an element cannot be read.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn as_int(value: &Value) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    // A cast saturates; a fraction of a millisecond is noise.
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and fractions are noise")]
    as_float(value).map(|number| number as i64)
}

fn as_float(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    struct Sample {
        #[serde(default, deserialize_with = "float")]
        p99: Option<f64>,
        #[serde(default, deserialize_with = "int")]
        end: i64,
        #[serde(default, deserialize_with = "count")]
        bytes: u64,
        #[serde(default, deserialize_with = "text")]
        name: String,
    }

    fn read(json: &str) -> Sample {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn oddities_read_as_nothing() {
        let nothing = Sample { p99: None, end: 0, bytes: 0, name: String::new() };
        assert_eq!(read(r#"{"p99":"NaN","end":"NaN","bytes":-1,"name":null}"#), nothing);
        assert_eq!(read(r#"{"p99":"Infinity","end":null,"bytes":null}"#), nothing);
        assert_eq!(read("{}"), nothing);
    }

    #[test]
    fn numbers_may_be_floats_or_text() {
        let sample = read(r#"{"p99":"28.5","end":-1,"bytes":5407.0,"name":"x"}"#);
        assert_eq!(sample, Sample { p99: Some(28.5), end: -1, bytes: 5407, name: "x".into() });
    }
}
