//! Addresses as Go's `net` package understands them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;

use super::error::ApiError;

/// How long a name may take to resolve before an admin call gives up.
const RESOLVE_LIMIT: Duration = Duration::from_secs(1);

/// The address a proxy would listen on. A name means its IPv4 address if it has one; an absent host means all
/// interfaces; an absent port means any.
///
/// # Errors
///
/// 500 with the text of the resolver (P19).
pub(crate) async fn resolve(listen: &str) -> Result<SocketAddr, ApiError> {
    let failed = |detail: &dyn std::fmt::Display| ApiError::internal(format!("listen tcp: address {listen}: {detail}"));
    let text = match listen {
        "" => "[::]:0".to_owned(),
        port if port.starts_with(':') => format!("[::]{port}"),
        full => full.to_owned(),
    };
    let found = tokio::time::timeout(RESOLVE_LIMIT, tokio::net::lookup_host(text)).await;
    let addresses: Vec<_> = match found {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => return Err(failed(&error)),
        Err(_) => return Err(failed(&format!("not resolved within {} ms", RESOLVE_LIMIT.as_millis()))),
    };
    let preferred = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    preferred.copied().ok_or_else(|| failed(&"no such host"))
}

/// Opens a listener.
///
/// # Errors
///
/// 500 with the text of the system, in Go's form (P19).
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, ApiError> {
    TcpListener::bind(address).await.map_err(|error| {
        let text = match error.kind() {
            io::ErrorKind::AddrInUse => "address already in use".to_owned(),
            io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        ApiError::internal(format!("listen tcp {address}: bind: {text}"))
    })
}

/// What to dial for an upstream: an absent host means this machine.
pub(crate) fn dial_target(upstream: &str) -> String {
    if upstream.starts_with(':') { format!("localhost{upstream}") } else { upstream.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_and_short_forms_resolve() {
        // P14
        assert_eq!(resolve("localhost:81").await, Ok(SocketAddr::from(([127, 0, 0, 1], 81))));
        assert_eq!(resolve("127.0.0.1:0").await, Ok(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert_eq!(resolve(":82").await.map(|address| address.port()), Ok(82));
        assert!(resolve("nonsense").await.is_err());
        assert_eq!(dial_target(":80"), "localhost:80");
        assert_eq!(dial_target("db:80"), "db:80");
    }
}
