//! Addresses as Go's `net` package understands them.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};

use super::error::ApiError;
use super::host_port;

/// How long a name may take to resolve before an admin call gives up.
const RESOLVE_LIMIT: Duration = Duration::from_secs(1);

/// How many connections may wait to be accepted; the kernel's own limit (`net.core.somaxconn`) holds besides. With less, a
/// burst of clients meets the second that the kernel waits before it sends another SYN: a delay that nobody injected.
const BACKLOG: u32 = 4_096;

/// How the system's resolver says that there is no such host.
const UNKNOWN_NAME: &str = "Name or service not known";

/// The address a proxy would listen on. A name means its IPv4 address if it has one; an absent host means all
/// interfaces; an absent port means any.
///
/// # Errors
///
/// 500 with Go's text, or the resolver's (P19).
pub(crate) async fn resolve(listen: &str) -> Result<SocketAddr, ApiError> {
    let (host, port) = host_port::parse(listen).map_err(ApiError::internal)?;
    if host.is_empty() {
        return Ok((Ipv6Addr::UNSPECIFIED, port).into());
    }
    let failed = |detail: String| ApiError::internal(format!("lookup {host}: {detail}"));
    let found = tokio::time::timeout(RESOLVE_LIMIT, tokio::net::lookup_host((host, port))).await;
    let addresses: Vec<_> = match found {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) if error.to_string().ends_with(UNKNOWN_NAME) => Vec::new(),
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Err(_) => return Err(failed(format!("no answer within {} ms", RESOLVE_LIMIT.as_millis()))),
    };
    let preferred = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    preferred.copied().ok_or_else(|| failed("no such host".to_owned()))
}

/// Opens a listener on an address as it was given.
///
/// # Errors
///
/// 500 with Go's text (P19).
pub(crate) async fn listen_on(listen: &str) -> Result<TcpListener, ApiError> {
    let address = resolve(listen).await.map_err(|error| ApiError::internal(format!("listen tcp: {error}")))?;
    bind(address)
}

/// Opens a listener that a burst of clients does not overrun. A port that was just left can be taken again at once.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Opens a proxy's listener.
///
/// # Errors
///
/// 500 with the text of the system, in Go's form (P19).
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, ApiError> {
    listen(address).map_err(|error| {
        let text = match error.kind() {
            io::ErrorKind::AddrInUse => "address already in use".to_owned(),
            io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        ApiError::internal(format!("listen tcp {address}: bind: {text}"))
    })
}

/// What to dial for an upstream: an absent host means this machine, the name of a port its number.
pub(crate) fn dial_target(upstream: &str) -> String {
    match host_port::parse(upstream) {
        Ok(("", port)) => format!("localhost:{port}"),
        Ok((host, port)) if host.contains(':') => format!("[{host}]:{port}"),
        Ok((host, port)) => format!("{host}:{port}"),
        // The dial tells.
        Err(_) => upstream.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_of_clients_is_not_kept_waiting() {
        let cap = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux");
        let burst = cap.trim().parse::<usize>().expect("a number").min(600);
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let address = listener.local_addr().expect("bound");
        // Nobody accepts: what does not fit waits for ever.
        let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_secs(10));
        let clients: Vec<_> = (0..burst).map_while(|_| connect().ok()).collect();
        assert_eq!(clients.len(), burst);
    }

    #[tokio::test]
    async fn names_and_short_forms_resolve() {
        // P14
        assert_eq!(resolve("localhost:81").await, Ok(SocketAddr::from(([127, 0, 0, 1], 81))));
        assert_eq!(resolve("127.0.0.1:0").await, Ok(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert_eq!(resolve(":82").await.map(|address| address.port()), Ok(82));
        assert_eq!(resolve("localhost:http").await, Ok(SocketAddr::from(([127, 0, 0, 1], 80))));
        assert_eq!(resolve("[::1]:0").await, Ok(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))));
        assert!(resolve("nonsense").await.is_err());
        assert_eq!(dial_target(":80"), "localhost:80");
        assert_eq!(dial_target("db:http"), "db:80");
        assert_eq!(dial_target("[::1]:80"), "[::1]:80");
    }
}
