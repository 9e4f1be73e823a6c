//! What clients send, decoded and checked.

use serde_json::Value;

use super::decode::{Object, nearest};
use super::error::ApiError;
use super::stream::Stream;
use super::toxic::Attributes;

/// Longest name, bytes. Each may take three in a URL, which has limits of its own.
const MAX_NAME_BYTES: usize = 4_096;

/// A toxic to be added.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewToxic {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) stream: Stream,
    pub(crate) stream_text: String,
    pub(crate) toxicity: f32,
    raw_attributes: Value,
}

impl NewToxic {
    /// In Toxiproxy's order of checks: body, stream, type.
    pub(crate) fn parse(value: &Value) -> Result<Self, ApiError> {
        let object = Object::of("ToxicWrapper", value).map_err(ApiError::bad_body)?;
        let text = |name| object.string(name).map_err(ApiError::bad_body);
        let stream_text = text("stream")?.unwrap_or(Stream::Downstream.as_str());
        let kind = text("type")?.unwrap_or_default();
        let given_name = text("name")?.unwrap_or_default();
        let toxicity = object.float32("toxicity").map_err(ApiError::bad_body)?.unwrap_or(1.0);
        let stream = stream_text.parse().map_err(|_| ApiError::invalid_stream())?;
        if Attributes::of_type(kind).is_none() {
            return Err(ApiError::invalid_type());
        }
        check_name(given_name)?;
        let name = if given_name.is_empty() { format!("{kind}_{stream_text}") } else { given_name.to_owned() };
        Ok(Self {
            name,
            kind: kind.to_owned(),
            stream,
            stream_text: stream_text.to_owned(),
            toxicity,
            raw_attributes: object.get("attributes").cloned().unwrap_or(Value::Null),
        })
    }

    /// The attributes and the toxicity, checked (P67, P68).
    pub(crate) fn attributes(&self, strict: bool) -> Result<Attributes, ApiError> {
        check_toxicity(self.toxicity)?;
        let mut attributes = Attributes::of_type(&self.kind).ok_or_else(ApiError::invalid_type)?;
        merge(&mut attributes, &self.raw_attributes, strict)?;
        Ok(attributes)
    }
}

/// A change to a toxic. Its name, type and stream are ignored (P66).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToxicChange {
    pub(crate) toxicity: Option<f32>,
    raw_attributes: Value,
}

impl ToxicChange {
    pub(crate) fn parse(value: &Value) -> Result<Self, ApiError> {
        let object = Object::of("Toxic", value).map_err(ApiError::bad_body)?;
        let toxicity = object.float32("toxicity").map_err(ApiError::bad_body)?;
        if let Some(toxicity) = toxicity {
            check_toxicity(toxicity)?;
        }
        Ok(Self { toxicity, raw_attributes: object.get("attributes").cloned().unwrap_or(Value::Null) })
    }

    /// `old` with the given fields replaced (P30). Nothing is half applied.
    pub(crate) fn merged(&self, old: &Attributes, strict: bool) -> Result<Attributes, ApiError> {
        let mut attributes = old.clone();
        merge(&mut attributes, &self.raw_attributes, strict)?;
        Ok(attributes)
    }
}

/// What could be created and not be named in a path could not be removed.
fn check_name(name: &str) -> Result<(), ApiError> {
    if name.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let size = name.len();
    Err(ApiError::bad_body(format!("name has {size} bytes, must have at most {MAX_NAME_BYTES}")))
}

fn check_toxicity(toxicity: f32) -> Result<(), ApiError> {
    if (0.0..=1.0).contains(&toxicity) {
        return Ok(());
    }
    Err(ApiError::bad_body(format!("toxicity is {toxicity}, must be within 0 and 1")))
}

fn merge(attributes: &mut Attributes, raw: &Value, strict: bool) -> Result<(), ApiError> {
    let object = Object::of("attributes", raw).map_err(ApiError::bad_body)?;
    let mut known = Vec::new();
    for (name, value) in attributes.fields() {
        if let Some(given) = object.integer(name).map_err(ApiError::bad_body)? {
            *value = given;
        }
        known.push(name);
    }
    if strict {
        refuse_unknown(object, &known)?;
    }
    attributes.check().map_err(ApiError::bad_body)
}

fn refuse_unknown(object: Object<'_>, known: &[&str]) -> Result<(), ApiError> {
    let Some(unknown) = object.names().find(|name| !known.iter().any(|known| known.eq_ignore_ascii_case(name))) else {
        return Ok(());
    };
    let hint = nearest(unknown, known).map(|name| format!(", did you mean {name}?")).unwrap_or_default();
    Err(ApiError::bad_body(format!("unknown attribute {unknown}{hint}")))
}

/// A proxy to be created, by create or populate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewProxy {
    pub(crate) name: String,
    pub(crate) listen: String,
    pub(crate) upstream: String,
    pub(crate) enabled: bool,
    /// In place before the listener opens (P65).
    pub(crate) toxics: Vec<NewToxic>,
}

impl NewProxy {
    /// Types only; see [`NewProxy::missing_field`] for the rest.
    pub(crate) fn parse(value: &Value) -> Result<Self, ApiError> {
        let object = Object::of("Proxy", value).map_err(ApiError::bad_body)?;
        let text =
            |name| object.string(name).map_err(ApiError::bad_body).map(|text| text.unwrap_or_default().to_owned());
        let toxics = match object.get("toxics") {
            None => Vec::new(),
            Some(Value::Array(entries)) => entries.iter().map(NewToxic::parse).collect::<Result<_, _>>()?,
            Some(_) => return Err(ApiError::bad_body("toxics is not an array")),
        };
        let name = text("name")?;
        check_name(&name)?;
        Ok(Self {
            name,
            listen: text("listen")?,
            upstream: text("upstream")?,
            enabled: object.boolean("enabled").map_err(ApiError::bad_body)?.unwrap_or(true),
            toxics,
        })
    }

    /// The first required field without a value (P04, P05).
    pub(crate) fn missing_field(&self) -> Option<&'static str> {
        if self.name.is_empty() {
            return Some("name");
        }
        self.upstream.is_empty().then_some("upstream")
    }

    /// Whether all of its toxics can be added.
    pub(crate) fn check_toxics(&self, strict: bool) -> Result<(), ApiError> {
        for (index, toxic) in self.toxics.iter().enumerate() {
            if self.toxics[..index].iter().any(|earlier| earlier.name == toxic.name) {
                return Err(ApiError::toxic_exists());
            }
            toxic.attributes(strict)?;
        }
        Ok(())
    }
}

/// A change to a proxy; absent fields keep their value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProxyChange {
    pub(crate) listen: Option<String>,
    pub(crate) upstream: Option<String>,
    pub(crate) enabled: Option<bool>,
}

impl ProxyChange {
    pub(crate) fn parse(value: &Value) -> Result<Self, ApiError> {
        let object = Object::of("Proxy", value).map_err(ApiError::bad_body)?;
        let text = |name| object.string(name).map_err(ApiError::bad_body).map(|text| text.map(str::to_owned));
        Ok(Self {
            listen: text("listen")?,
            upstream: text("upstream")?,
            enabled: object.boolean("enabled").map_err(ApiError::bad_body)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(value: &Value) -> Result<Attributes, ApiError> {
        NewToxic::parse(value)?.attributes(false)
    }

    #[test]
    fn checks_come_in_toxiproxys_order() {
        let wrong_everything = json!({"stream": "x", "type": "y", "attributes": {"rate": 1.5}});
        assert_eq!(NewToxic::parse(&wrong_everything), Err(ApiError::invalid_stream()));
        assert_eq!(NewToxic::parse(&json!({"type": "y"})), Err(ApiError::invalid_type()));
        assert_eq!(NewToxic::parse(&json!({"stream": "", "type": "noop"})), Err(ApiError::invalid_stream())); // P34
        assert!(NewToxic::parse(&json!({"stream": 1, "type": "noop"})).is_err()); // P34
        let fraction = parsed(&json!({"type": "bandwidth", "attributes": {"rate": 1.5}}));
        assert!(fraction.is_err_and(|error| error.message.starts_with("bad request body: ")));
    }

    #[test]
    fn defaults_and_loose_names() {
        // P27 P29
        let toxic = NewToxic::parse(&json!({"Type": "latency", "Attributes": {"LATENCY": 7}})).expect("a good toxic");
        assert_eq!(
            (toxic.name.as_str(), toxic.stream, toxic.toxicity),
            ("latency_downstream", Stream::Downstream, 1.0)
        );
        let attributes = toxic.attributes(false).expect("good attributes");
        assert_eq!(serde_json::to_value(attributes).expect("plain"), json!({"latency": 7, "jitter": 0}));
    }

    #[test]
    fn unknown_attributes_are_refused_only_when_strict() {
        // P67
        let toxic = NewToxic::parse(&json!({"type": "latency", "attributes": {"latancy": 7}})).expect("a good toxic");
        assert!(toxic.attributes(false).is_ok());
        let error = toxic.attributes(true).expect_err("strict");
        assert_eq!(error.message, "bad request body: unknown attribute latancy, did you mean latency?");
    }

    #[test]
    fn toxicity_outside_its_range_is_refused() {
        // P68
        for toxicity in [-0.1, 1.1] {
            assert!(parsed(&json!({"type": "noop", "toxicity": toxicity})).is_err(), "{toxicity}");
            assert!(ToxicChange::parse(&json!({"toxicity": toxicity})).is_err(), "{toxicity}");
        }
        assert!(parsed(&json!({"type": "noop", "toxicity": 0})).is_ok());
    }
}
