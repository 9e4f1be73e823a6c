//! `host:port` as Go's `net` package reads it, and what it says of anything else.

/// The system's list of port names.
const SERVICES: &str = "/etc/services";

/// Names that are known without it, too.
const KNOWN: [(&str, u16); 7] =
    [("domain", 53), ("ftp", 21), ("http", 80), ("https", 443), ("smtp", 25), ("ssh", 22), ("telnet", 23)];

/// The host, empty if absent, and the port, 0 if absent.
///
/// # Errors
///
/// What is wrong, in Go's words.
pub(crate) fn parse(address: &str) -> Result<(&str, u16), String> {
    if address.is_empty() {
        return Ok(("", 0));
    }
    let (host, port) = split(address).map_err(|what| format!("address {address}: {what}"))?;
    Ok((host, port_number(port)?))
}

/// Host and port as texts; a host with colons stands in brackets.
fn split(address: &str) -> Result<(&str, &str), &'static str> {
    const NO_PORT: &str = "missing port in address";
    const TOO_MANY: &str = "too many colons in address";
    let (before, port) = address.rsplit_once(':').ok_or(NO_PORT)?;
    let (host, rest) = match address.strip_prefix('[') {
        None if before.contains(':') => return Err(TOO_MANY),
        None => (before, before),
        Some(inner) => {
            let (host, after) = inner.split_once(']').ok_or("missing ']' in address")?;
            match after.strip_prefix(':') {
                Some(only) if only == port => (host, host),
                Some(_) => return Err(TOO_MANY),
                None => return Err(NO_PORT),
            }
        }
    };
    if rest.contains('[') || port.contains('[') {
        return Err("unexpected '[' in address");
    }
    if rest.contains(']') || port.contains(']') {
        return Err("unexpected ']' in address");
    }
    Ok((host, port))
}

fn port_number(port: &str) -> Result<u16, String> {
    let digits = port.strip_prefix(['+', '-']).unwrap_or(port);
    if port.is_empty() {
        return Ok(0);
    }
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return port_of_name(port).ok_or_else(|| format!("lookup tcp/{port}: unknown port"));
    }
    let number = digits.parse().ok().filter(|number| *number == 0 || !port.starts_with('-'));
    number.ok_or_else(|| format!("address {port}: invalid port"))
}

fn port_of_name(name: &str) -> Option<u16> {
    let known = KNOWN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, port)| *port);
    known.or_else(|| listed_port(&std::fs::read_to_string(SERVICES).ok()?, name))
}

/// The TCP port of a name in a text like `http 80/tcp www # comment`.
fn listed_port(services: &str, name: &str) -> Option<u16> {
    services.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let (first, port) = (words.next()?, words.next()?.strip_suffix("/tcp")?);
        let is_meant = std::iter::once(first).chain(words).any(|known| known.eq_ignore_ascii_case(name));
        is_meant.then(|| port.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        // P14
        for (address, parts) in [
            ("", ("", 0)),
            (":80", ("", 80)),
            ("db:", ("db", 0)),
            ("127.0.0.1:+80", ("127.0.0.1", 80)),
            ("127.0.0.1:-0", ("127.0.0.1", 0)),
            ("[::1]:65535", ("::1", 65535)),
            ("[]:1", ("", 1)),
            ("db:HTTP", ("db", 80)),
        ] {
            assert_eq!(parse(address), Ok(parts), "{address}");
        }
    }

    #[test]
    fn a_port_name_is_looked_up() {
        let services = "# comment\nwww 8/udp\nhttp-alt\t8080/tcp\twebcache # WWW\n";
        assert_eq!(listed_port(services, "WebCache"), Some(8080));
        assert_eq!(listed_port(services, "http-alt"), Some(8080));
        assert_eq!(listed_port(services, "www"), None);
    }
}
