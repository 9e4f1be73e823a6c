//! Which clients a toxic is for, by their address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The attribute, of every type of toxic.
pub(crate) const ATTRIBUTE: &str = "clients";

/// One address, or a network in CIDR form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clients {
    network: IpAddr,
    bits: u32,
    /// As it was given.
    text: String,
}

/// A text that is neither.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("attribute clients is {0:?}, must be an address or a network, e.g. 10.1.2.3 or 10.1.0.0/16")]
pub struct NoClients(String);

/// The address as a number, and how many bits it has.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), u32::BITS),
        IpAddr::V6(address) => (u128::from(address), u128::BITS),
    }
}

impl Clients {
    /// Whether a client at `address` is among them. An IPv4 client of a listener for both families is one of IPv4.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        let (wanted, width) = number(self.network);
        let (found, found_width) = number(address.to_canonical());
        // A shift by all bits is none: every address has the same prefix of no bits.
        let prefix = |number: u128| number.checked_shr(width - self.bits).unwrap_or(0);
        width == found_width && prefix(wanted) == prefix(found)
    }
}

impl FromStr for Clients {
    type Err = NoClients;

    fn from_str(text: &str) -> Result<Self, NoClients> {
        let bad = || NoClients(text.to_owned());
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let network: IpAddr = address.parse().map_err(|_| bad())?;
        let (_, width) = number(network);
        let bits = bits.map_or(Ok(width), str::parse).ok().filter(|bits| *bits <= width).ok_or_else(bad)?;
        Ok(Self { network, bits, text: text.to_owned() })
    }
}

impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contain(clients: &str, address: &str) -> bool {
        clients.parse::<Clients>().expect(clients).contain(address.parse().expect(address))
    }

    #[test]
    fn addresses_and_networks_are_told_apart() {
        assert!(contain("127.0.0.1", "127.0.0.1") && !contain("127.0.0.1", "127.0.0.2"));
        assert!(contain("10.1.0.0/16", "10.1.255.3") && !contain("10.1.0.0/16", "10.2.0.0"));
        assert!(contain("10.1.2.3/8", "10.9.9.9"), "what lies beyond the prefix does not matter");
        assert!(contain("0.0.0.0/0", "8.8.8.8") && !contain("0.0.0.0/0", "::1"));
        assert!(contain("::/0", "::1") && contain("fd00::/8", "fd12::1") && !contain("fd00::/8", "fe80::1"));
        assert!(contain("127.0.0.1", "::ffff:127.0.0.1"), "a client of IPv4");
        for bad in ["", "localhost", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "::1/129"] {
            assert!(bad.parse::<Clients>().is_err(), "{bad}");
        }
    }
}
