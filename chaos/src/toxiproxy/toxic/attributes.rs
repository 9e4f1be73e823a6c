//! The toxic types by name, and their attributes.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::{
    SharedLine, Toxic, bandwidth, hold, latency, limit_data, limit_time, noop, reset_peer, slicer, slow_close, timeout,
};
use crate::toxiproxy::random::Draws;

pub use super::bandwidth::Bandwidth;
pub use super::connect::{Connect, Reception};
pub use super::hold::Hold;
pub use super::latency::Latency;
pub use super::limit_data::LimitData;
pub use super::limit_time::LimitTime;
pub use super::noop::Noop;
pub use super::reset_peer::ResetPeer;
pub use super::slicer::Slicer;
pub use super::slow_close::SlowClose;
pub use super::timeout::Timeout;

/// The attributes of one toxic, by type. All attributes are whole numbers, as in Toxiproxy; absent ones are 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attributes {
    /// `latency`
    Latency(Latency),
    /// `bandwidth`
    Bandwidth(Bandwidth),
    /// `slow_close`
    SlowClose(SlowClose),
    /// `timeout`
    Timeout(Timeout),
    /// `reset_peer`
    ResetPeer(ResetPeer),
    /// `slicer`
    Slicer(Slicer),
    /// `limit_data`
    LimitData(LimitData),
    /// `noop`
    Noop(Noop),
    /// `hold`, beyond Toxiproxy
    Hold(Hold),
    /// `limit_time`, beyond Toxiproxy
    LimitTime(LimitTime),
    /// `connect_blackhole`, beyond Toxiproxy
    ConnectBlackhole(Connect),
    /// `connect_refuse`, beyond Toxiproxy
    ConnectRefuse(Connect),
}

/// A field of an attribute set: its name on the wire and where its value lies.
pub type Field<'a> = (&'static str, &'a mut i64);

/// The names of all types.
pub const TYPES: [&str; 12] = [
    "latency",
    "bandwidth",
    "slow_close",
    "timeout",
    "reset_peer",
    "slicer",
    "limit_data",
    "noop",
    "hold",
    "limit_time",
    "connect_blackhole",
    "connect_refuse",
];

impl Attributes {
    /// The attributes of a type, all 0; `None` for an unknown type.
    #[must_use]
    pub fn of_type(kind: &str) -> Option<Self> {
        Some(match kind {
            "latency" => Attributes::Latency(Latency::default()),
            "bandwidth" => Attributes::Bandwidth(Bandwidth::default()),
            "slow_close" => Attributes::SlowClose(SlowClose::default()),
            "timeout" => Attributes::Timeout(Timeout::default()),
            "reset_peer" => Attributes::ResetPeer(ResetPeer::default()),
            "slicer" => Attributes::Slicer(Slicer::default()),
            "limit_data" => Attributes::LimitData(LimitData::default()),
            "noop" => Attributes::Noop(Noop {}),
            "hold" => Attributes::Hold(Hold {}),
            "limit_time" => Attributes::LimitTime(LimitTime::default()),
            "connect_blackhole" => Attributes::ConnectBlackhole(Connect::default()),
            "connect_refuse" => Attributes::ConnectRefuse(Connect::default()),
            _ => return None,
        })
    }

    /// The fields that can be set.
    pub fn fields(&mut self) -> Vec<Field<'_>> {
        match self {
            Attributes::Latency(a) => vec![("latency", &mut a.latency), ("jitter", &mut a.jitter)],
            Attributes::Bandwidth(a) => vec![("rate", &mut a.rate), ("shared", &mut a.shared)],
            Attributes::SlowClose(a) => vec![("delay", &mut a.delay)],
            Attributes::Timeout(a) => vec![("timeout", &mut a.timeout), ("deadline", &mut a.deadline)],
            Attributes::ResetPeer(a) => vec![("timeout", &mut a.timeout)],
            Attributes::Slicer(a) => vec![
                ("average_size", &mut a.average_size),
                ("size_variation", &mut a.size_variation),
                ("delay", &mut a.delay),
            ],
            Attributes::LimitData(a) => vec![("bytes", &mut a.bytes)],
            Attributes::LimitTime(a) => vec![("time", &mut a.time)],
            Attributes::ConnectBlackhole(a) | Attributes::ConnectRefuse(a) => vec![("first", &mut a.first)],
            Attributes::Noop(_) | Attributes::Hold(_) => Vec::new(),
        }
    }

    /// Whether an attribute is a yes or no: `true` and `false` are then taken as well as 1 and 0.
    #[must_use]
    pub fn is_flag(name: &str) -> bool {
        name == "shared"
    }

    /// The attribute that says what a toxic of this type is to do; without it, it would do nothing, or nothing that
    /// anybody asks for. `None` if it can do without.
    #[must_use]
    pub fn main_field(&self) -> Option<&'static str> {
        match self {
            Attributes::Latency(_) => Some("latency"),
            Attributes::Bandwidth(_) => Some("rate"),
            Attributes::SlowClose(_) => Some("delay"),
            Attributes::Slicer(_) => Some("average_size"),
            Attributes::LimitData(_) => Some("bytes"),
            Attributes::LimitTime(_) => Some("time"),
            // At once, and for good, are what both are used for.
            Attributes::Timeout(_) | Attributes::ResetPeer(_) => None,
            // Every connection.
            Attributes::ConnectBlackhole(_) | Attributes::ConnectRefuse(_) => None,
            Attributes::Noop(_) | Attributes::Hold(_) => None,
        }
    }

    /// What a new client meets before its upstream is dialled, for the types that act there and nowhere else.
    #[must_use]
    pub fn reception(&self) -> Option<(Reception, Connect)> {
        match self {
            Attributes::ConnectBlackhole(a) => Some((Reception::Blackhole, *a)),
            Attributes::ConnectRefuse(a) => Some((Reception::Refuse, *a)),
            _ => None,
        }
    }

    /// Whether the values make sense (P68): those that crash or confuse Toxiproxy are refused.
    ///
    /// # Errors
    ///
    /// What is wrong, for people.
    pub fn check(&mut self) -> Result<(), String> {
        for (name, value) in self.fields() {
            if *value < 0 {
                return Err(format!("attribute {name} is {value}, must not be negative"));
            }
        }
        if let Attributes::Bandwidth(Bandwidth { shared: 2.., .. }) = self {
            return Err("attribute shared must be 0 or 1".to_owned());
        }
        let Attributes::Slicer(slicer) = self else { return Ok(()) };
        if slicer.average_size == 0 {
            return Err("attribute average_size is 0, must be at least 1 byte".to_owned());
        }
        if slicer.size_variation >= slicer.average_size {
            return Err(format!(
                "attribute size_variation is {}, must be below average_size, which is {}",
                slicer.size_variation, slicer.average_size
            ));
        }
        Ok(())
    }

    /// A toxic with these attributes, ready for one connection; `line` is that of all connections.
    #[must_use]
    pub fn build(&self, draws: Draws, line: &Arc<SharedLine>, now: Duration) -> Box<dyn Toxic> {
        match self {
            Attributes::Latency(a) => Box::new(latency::LatencyToxic::new(*a, draws)),
            Attributes::Bandwidth(a) => Box::new(bandwidth::BandwidthToxic::new(*a, Arc::clone(line), now)),
            Attributes::SlowClose(a) => Box::new(slow_close::SlowCloseToxic::new(*a)),
            Attributes::Timeout(a) => Box::new(timeout::TimeoutToxic::new(*a, now)),
            Attributes::ResetPeer(a) => Box::new(reset_peer::ResetPeerToxic::new(*a)),
            Attributes::Slicer(a) => Box::new(slicer::SlicerToxic::new(*a, draws)),
            Attributes::LimitData(a) => Box::new(limit_data::LimitDataToxic::new(*a)),
            Attributes::LimitTime(a) => Box::new(limit_time::LimitTimeToxic::new(*a, now)),
            Attributes::Noop(_) | Attributes::ConnectBlackhole(_) | Attributes::ConnectRefuse(_) => {
                Box::new(noop::NoopToxic)
            }
            Attributes::Hold(_) => Box::new(hold::HoldToxic::default()),
        }
    }
}

impl Serialize for Attributes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Attributes::Latency(a) => a.serialize(serializer),
            Attributes::Bandwidth(a) => a.serialize(serializer),
            Attributes::SlowClose(a) => a.serialize(serializer),
            Attributes::Timeout(a) => a.serialize(serializer),
            Attributes::ResetPeer(a) => a.serialize(serializer),
            Attributes::Slicer(a) => a.serialize(serializer),
            Attributes::LimitData(a) => a.serialize(serializer),
            Attributes::LimitTime(a) => a.serialize(serializer),
            Attributes::Noop(a) => a.serialize(serializer),
            Attributes::Hold(a) => a.serialize(serializer),
            Attributes::ConnectBlackhole(a) | Attributes::ConnectRefuse(a) => a.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_crash_toxiproxy_are_refused() {
        // P68
        let refused = [
            Attributes::Bandwidth(Bandwidth { rate: -1, shared: 0 }),
            Attributes::Bandwidth(Bandwidth { rate: 1, shared: 2 }),
            Attributes::Latency(Latency { latency: -1, jitter: 0 }),
            Attributes::Latency(Latency { latency: 0, jitter: -1 }),
            Attributes::LimitData(LimitData { bytes: -1 }),
            Attributes::Timeout(Timeout { timeout: -1, deadline: 0 }),
            Attributes::Slicer(Slicer { average_size: 0, size_variation: 0, delay: 0 }),
            Attributes::Slicer(Slicer { average_size: 10, size_variation: 10, delay: 0 }),
        ];
        for mut attributes in refused {
            assert!(attributes.check().is_err(), "{attributes:?} was accepted");
        }
        // P55 P69
        assert_eq!(Attributes::Slicer(Slicer { average_size: 10, size_variation: 0, delay: 0 }).check(), Ok(()));
        assert_eq!(Attributes::Bandwidth(Bandwidth { rate: 0, shared: 0 }).check(), Ok(()));
    }

    #[test]
    fn every_type_has_a_name_and_serialises_its_fields() {
        // What is beyond Toxiproxy's attributes and not used does not show.
        for kind in TYPES.into_iter().filter(|kind| !["timeout", "bandwidth"].contains(kind)) {
            let mut attributes = Attributes::of_type(kind).expect("a known type");
            let json = serde_json::to_value(&attributes).expect("plain numbers");
            let names: Vec<_> = attributes.fields().iter().map(|(name, _)| (*name).to_owned()).collect();
            assert_eq!(json.as_object().expect("an object").len(), names.len(), "{kind}");
            assert!(names.iter().all(|name| json[name] == 0), "{kind}: {json}");
            assert!(attributes.main_field().is_none_or(|main| json[main] == 0), "{kind}: {json}");
        }
        assert_eq!(Attributes::of_type("packet_loss"), None);
    }

    #[test]
    fn what_is_not_used_beyond_toxiproxy_does_not_show() {
        let plain = serde_json::to_string(&Attributes::Bandwidth(Bandwidth { rate: 5, shared: 0 }));
        assert_eq!(plain.expect("plain numbers"), r#"{"rate":5}"#);
        let plain = serde_json::to_string(&Attributes::Timeout(Timeout { timeout: 5, deadline: 0 }));
        assert_eq!(plain.expect("plain numbers"), r#"{"timeout":5}"#);
    }
}
