//! What clients send, decoded and checked.

use super::clients::{self, Clients};
use super::error::ApiError;
use super::go_json::{BadJson, Field, Json};
use super::nearest::nearest;
use super::stream::Stream;
use super::toxic::{Attributes, attributes};

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
    given_attributes: Vec<Field>,
}

impl NewToxic {
    /// In Toxiproxy's order of checks: body, stream, type.
    pub(crate) fn parse(body: &Json) -> Result<Self, ApiError> {
        const OWNER: &str = "ToxicWrapper";
        let (mut name, mut kind) = (String::new(), String::new());
        let mut stream_text = Stream::Downstream.as_str().to_owned();
        let mut toxicity = 1.0;
        let mut given_attributes = Vec::new();
        for field in body.fields("toxics.ToxicWrapper")? {
            match field.key() {
                "name" => set(&mut name, field.string(OWNER)?),
                "type" => set(&mut kind, field.string(OWNER)?),
                "stream" => set(&mut stream_text, field.string(OWNER)?),
                "toxicity" => set(&mut toxicity, field.float32(OWNER)?),
                // Of which type they are is not known yet. A `noop` has none.
                "attributes" => given_attributes.extend(field.fields(OWNER, "toxics.NoopToxic")?),
                _ => {}
            }
        }
        let stream = stream_text.parse().map_err(|_| ApiError::invalid_stream())?;
        if Attributes::of_type(&kind).is_none() {
            return Err(ApiError::invalid_type(&kind));
        }
        check_name(&name)?;
        if name.is_empty() {
            name = format!("{kind}_{stream_text}");
        }
        Ok(Self { name, kind, stream, stream_text, toxicity, given_attributes })
    }

    /// The attributes and the toxicity, checked (P67, P68).
    pub(crate) fn attributes(&self, strict: bool) -> Result<Attributes, ApiError> {
        check_toxicity(self.toxicity)?;
        let mut attributes = Attributes::of_type(&self.kind).ok_or_else(|| ApiError::invalid_type(&self.kind))?;
        merge(&mut attributes, &self.kind, &self.given_attributes, strict)?;
        Ok(attributes)
    }

    /// Whom it is for.
    pub(crate) fn clients(&self) -> Result<Option<Clients>, ApiError> {
        Ok(clients(&self.kind, &self.given_attributes)?.flatten())
    }
}

/// A change to a toxic. Its name, type and stream are ignored (P66).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToxicChange {
    pub(crate) toxicity: Option<f32>,
    kind: String,
    given_attributes: Vec<Field>,
}

impl ToxicChange {
    /// The change to a toxic of this type.
    pub(crate) fn parse(body: &Json, kind: &str) -> Result<Self, ApiError> {
        let mut change = Self { toxicity: None, kind: kind.to_owned(), given_attributes: Vec::new() };
        let wanted =
            r#"struct { Attributes interface {} "json:\"attributes\""; Toxicity float32 "json:\"toxicity\"" }"#;
        for field in body.fields(wanted)? {
            match field.key() {
                "toxicity" => change.toxicity = field.float32("")?.or(change.toxicity),
                "attributes" => {
                    let wanted = format!("toxics.{}", go_type(kind));
                    change.given_attributes.extend(field.fields("", &wanted)?);
                }
                _ => {}
            }
        }
        if let Some(toxicity) = change.toxicity {
            check_toxicity(toxicity)?;
        }
        Ok(change)
    }

    /// `old` with the given fields replaced (P30). Nothing is half applied.
    pub(crate) fn merged(&self, old: &Attributes, strict: bool) -> Result<Attributes, ApiError> {
        let mut attributes = old.clone();
        merge(&mut attributes, &self.kind, &self.given_attributes, strict)?;
        Ok(attributes)
    }

    /// Whom it is to be for, if that changes; an empty text means everybody.
    pub(crate) fn clients(&self) -> Result<Option<Option<Clients>>, ApiError> {
        clients(&self.kind, &self.given_attributes)
    }
}

fn clients(kind: &str, given: &[Field]) -> Result<Option<Option<Clients>>, ApiError> {
    let owner = attributes_of(kind);
    let mut clients = None;
    for field in given.iter().filter(|field| field.key() == clients::ATTRIBUTE) {
        if let Some(text) = field.string(&owner)? {
            let named = if text.is_empty() { None } else { Some(text.parse().map_err(ApiError::bad_body)?) };
            clients = Some(named);
        }
    }
    Ok(clients)
}

fn set<T>(slot: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *slot = given;
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

fn merge(attributes: &mut Attributes, kind: &str, given: &[Field], strict: bool) -> Result<(), ApiError> {
    let owner = attributes_of(kind);
    let mut known = attributes.fields();
    for field in given {
        match known.iter_mut().find(|(name, _)| *name == field.key()) {
            Some((name, value)) if Attributes::is_flag(name) => set(*value, field.flag(&owner)?),
            Some((_, value)) => set(*value, field.integer(&owner)?),
            None if field.key() == clients::ATTRIBUTE => {}
            None if strict => return Err(unknown_attribute(&field.name, &known)),
            None => {}
        }
    }
    attributes.check().map_err(ApiError::bad_body)
}

fn unknown_attribute(given: &str, known: &[attributes::Field<'_>]) -> ApiError {
    let known: Vec<_> = known.iter().map(|(name, _)| *name).chain([clients::ATTRIBUTE]).collect();
    let hint = nearest(given, &known).map(|name| format!(", did you mean {name}?")).unwrap_or_default();
    ApiError::bad_body(format!("unknown attribute {given}{hint}"))
}

/// Go's path to the attributes of a type.
fn attributes_of(kind: &str) -> String {
    format!("{}.attributes", go_type(kind))
}

/// Go's name of the structure that holds the attributes of a type.
fn go_type(kind: &str) -> String {
    if kind == "reset_peer" {
        return "ResetToxic".to_owned();
    }
    let words = kind.split('_').map(|word| word[..1].to_ascii_uppercase() + &word[1..]);
    words.chain(["Toxic".to_owned()]).collect()
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
    pub(crate) fn parse(body: &Json) -> Result<Self, ApiError> {
        Self::of(ProxyFields::read(body, &ProxyFields::ALONE)?)
    }

    /// The entries of a list, as for populate.
    pub(crate) fn parse_list(body: &Json) -> Result<Vec<Self>, ApiError> {
        let words = &ProxyFields::LISTED;
        let entries = body.items(&format!("[]{}", words.whole))?;
        // Types come first, in all of them.
        let read: Vec<_> = entries.iter().map(|entry| ProxyFields::read(entry, words)).collect::<Result<_, _>>()?;
        read.into_iter().map(Self::of).collect()
    }

    fn of(fields: ProxyFields) -> Result<Self, ApiError> {
        let name = fields.name.unwrap_or_default();
        check_name(&name)?;
        Ok(Self {
            name,
            listen: fields.listen.unwrap_or_default(),
            upstream: fields.upstream.unwrap_or_default(),
            enabled: fields.enabled.unwrap_or(true),
            toxics: match fields.toxics {
                Some((owner, field)) => {
                    let toxics = field.items(owner, "[]toxics.ToxicWrapper")?;
                    toxics.iter().map(NewToxic::parse).collect::<Result<_, _>>()?
                }
                None => Vec::new(),
            },
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
            toxic.clients()?;
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
    /// The name cannot be changed, but must be one if it is given.
    pub(crate) fn parse(body: &Json) -> Result<Self, ApiError> {
        let ProxyFields { listen, upstream, enabled, .. } = ProxyFields::read(body, &ProxyFields::ALONE)?;
        Ok(Self { listen, upstream, enabled })
    }
}

/// What is said of a proxy in a body.
#[derive(Default)]
struct ProxyFields {
    name: Option<String>,
    listen: Option<String>,
    upstream: Option<String>,
    enabled: Option<bool>,
    /// With Go's path to it.
    toxics: Option<(&'static str, Field)>,
}

/// Go's words for the place of a proxy.
struct ProxyWords {
    whole: &'static str,
    owner: &'static str,
    owner_of_enabled: &'static str,
}

impl ProxyFields {
    const ALONE: ProxyWords = ProxyWords { whole: "toxiproxy.Proxy", owner: "Proxy", owner_of_enabled: "Proxy" };
    const LISTED: ProxyWords = ProxyWords {
        whole: r#"struct { toxiproxy.Proxy; Enabled *bool "json:\"enabled\"" }"#,
        owner: ".Proxy",
        owner_of_enabled: "",
    };

    fn read(body: &Json, words: &ProxyWords) -> Result<Self, BadJson> {
        let mut found = Self::default();
        for field in body.fields(words.whole)? {
            match field.key() {
                "name" => found.name = field.string(words.owner)?.or(found.name),
                "listen" => found.listen = field.string(words.owner)?.or(found.listen),
                "upstream" => found.upstream = field.string(words.owner)?.or(found.upstream),
                "enabled" => found.enabled = field.boolean(words.owner_of_enabled)?.or(found.enabled),
                "toxics" => found.toxics = Some((words.owner, field)),
                _ => {}
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn toxic(body: Value) -> Result<NewToxic, ApiError> {
        NewToxic::parse(&body.into())
    }

    fn parsed(body: Value) -> Result<Attributes, ApiError> {
        toxic(body)?.attributes(false)
    }

    #[test]
    fn checks_come_in_toxiproxys_order() {
        let wrong_everything = json!({"stream": "x", "type": "y", "attributes": {"rate": 1.5}});
        assert_eq!(toxic(wrong_everything), Err(ApiError::invalid_stream()));
        assert_eq!(toxic(json!({"type": "y"})), Err(ApiError::invalid_type("y")));
        assert_eq!(toxic(json!({"stream": "", "type": "noop"})), Err(ApiError::invalid_stream())); // P34
        assert!(toxic(json!({"stream": 1, "type": "noop"})).is_err()); // P34
        let fraction = parsed(json!({"type": "bandwidth", "attributes": {"rate": 1.5}}));
        assert!(fraction.is_err_and(|error| error.message.starts_with("bad request body: ")));
    }

    #[test]
    fn defaults_and_loose_names() {
        // P27 P29
        let new = toxic(json!({"Type": "latency", "Attributes": {"LATENCY": 7}})).expect("a good toxic");
        assert_eq!((new.name.as_str(), new.stream, new.toxicity), ("latency_downstream", Stream::Downstream, 1.0));
        let attributes = new.attributes(false).expect("good attributes");
        assert_eq!(serde_json::to_value(attributes).expect("plain"), json!({"latency": 7, "jitter": 0}));
    }

    #[test]
    fn unknown_attributes_are_refused_only_when_strict() {
        // P67
        let new = toxic(json!({"type": "latency", "attributes": {"latancy": 7}})).expect("a good toxic");
        assert!(new.attributes(false).is_ok());
        let error = new.attributes(true).expect_err("strict");
        assert_eq!(error.message, "bad request body: unknown attribute latancy, did you mean latency?");
    }

    #[test]
    fn toxicity_outside_its_range_is_refused() {
        // P68
        for toxicity in [-0.1, 1.1] {
            assert!(parsed(json!({"type": "noop", "toxicity": toxicity})).is_err(), "{toxicity}");
            assert!(ToxicChange::parse(&json!({"toxicity": toxicity}).into(), "noop").is_err(), "{toxicity}");
        }
        assert!(parsed(json!({"type": "noop", "toxicity": 0})).is_ok());
    }
}
