//! A toxic as it stands in a proxy's list, shared by all links of the proxy.

use std::net::IpAddr;
use std::sync::Arc;

use serde::ser::{Error as _, Serialize, SerializeStruct, Serializer};

use super::clients::{self, Clients};
use super::effects::ToxicCounters;
use super::stream::Stream;
use super::toxic::{Attributes, SharedLine};

/// One toxic of a proxy.
#[derive(Debug, Clone)]
pub struct ToxicSpec {
    /// Unique in the life of the proxy: a toxic that is removed and added again is another one.
    pub id: u64,
    /// Counts updates.
    pub revision: u64,
    /// Unique per proxy, over both streams.
    pub name: String,
    /// The type's name on the wire.
    pub kind: String,
    /// The direction it acts on.
    pub stream: Stream,
    /// The direction as it was sent, for the echo.
    pub stream_text: String,
    /// The share of connections it acts on, 0 to 1.
    pub toxicity: f32,
    /// What it does.
    pub attributes: Attributes,
    /// Whom it is for; none: everybody.
    pub clients: Option<Clients>,
    /// What it has done, over all connections.
    pub counters: Arc<ToxicCounters>,
    /// What its connections share.
    pub line: Arc<SharedLine>,
}

impl ToxicSpec {
    /// Whether it acts on a connection of the client, for which `draw` was drawn.
    #[must_use]
    pub fn acts_on(&self, client: IpAddr, draw: f64) -> bool {
        draw < f64::from(self.toxicity) && self.clients.as_ref().is_none_or(|clients| clients.contain(client))
    }
}

/// The attributes of the type, and whom the toxic is for.
struct Shown<'a>(&'a ToxicSpec);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(chosen) = &self.0.clients else { return self.0.attributes.serialize(serializer) };
        let mut all = serde_json::to_value(&self.0.attributes).map_err(S::Error::custom)?;
        all[clients::ATTRIBUTE] = chosen.to_string().into();
        all.serialize(serializer)
    }
}

impl Serialize for ToxicSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Toxic", 5)?;
        out.serialize_field("attributes", &Shown(self))?;
        out.serialize_field("name", &self.name)?;
        out.serialize_field("type", &self.kind)?;
        out.serialize_field("stream", &self.stream_text)?;
        // Go prints a whole float without a point.
        if self.toxicity.fract() == 0.0 {
            out.serialize_field("toxicity", &(self.toxicity as i64))?;
        } else {
            out.serialize_field("toxicity", &self.toxicity)?;
        }
        out.end()
    }
}

/// All toxics of a proxy, in order of creation, and how often the list has changed.
#[derive(Debug, Clone, Default)]
pub struct ToxicList {
    /// Counts changes; a link reports the last one it has put into effect.
    pub version: u64,
    /// In order of creation, both streams.
    pub toxics: Vec<ToxicSpec>,
}

impl ToxicList {
    /// The toxics of one stream, in order.
    pub fn on(&self, stream: Stream) -> impl Iterator<Item = &ToxicSpec> {
        self.toxics.iter().filter(move |toxic| toxic.stream == stream)
    }

    /// As the API lists them: upstream first.
    #[must_use]
    pub fn listed(&self) -> Vec<&ToxicSpec> {
        Stream::BOTH.into_iter().flat_map(|stream| self.on(stream)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_form_is_toxiproxys() {
        let mut spec = ToxicSpec {
            id: 1,
            revision: 0,
            name: "latency_Upstream".to_owned(),
            kind: "latency".to_owned(),
            stream: Stream::Upstream,
            stream_text: "Upstream".to_owned(),
            toxicity: 1.0,
            attributes: Attributes::of_type("latency").expect("a known type"),
            clients: None,
            counters: Arc::default(),
            line: Arc::default(),
        };
        let json = |spec: &ToxicSpec| serde_json::to_string(spec).expect("plain data");
        let rest = r#""name":"latency_Upstream","type":"latency","stream":"Upstream","toxicity""#;
        assert_eq!(json(&spec), format!(r#"{{"attributes":{{"latency":0,"jitter":0}},{rest}:1}}"#));
        spec.toxicity = 0.2; // P28
        assert_eq!(json(&spec), format!(r#"{{"attributes":{{"latency":0,"jitter":0}},{rest}:0.2}}"#));
    }
}
