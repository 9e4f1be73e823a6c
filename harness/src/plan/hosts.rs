//! Which hosts may be hurt: this machine, and others that were opted in twice.
//!
//! A name on a command line or in a plan is copied and forgotten; the environment of whoever runs it is not. So a host
//! elsewhere needs both.

use std::collections::BTreeSet;

use stormproof_chaos::toxiproxy::ApiUrl;

/// Must be `1` in the environment before a host other than this machine is hurt.
pub const ALLOW_REMOTE: &str = "STORMPROOF_ALLOW_REMOTE";

/// Whether the environment allows other hosts than this machine, if they are named as well.
#[must_use]
pub fn is_remote_allowed() -> bool {
    std::env::var(ALLOW_REMOTE).is_ok_and(|value| value == "1")
}

/// A server must not be hurt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{url} is not on this machine, and {host} was not allowed twice: by its name, and with {ALLOW_REMOTE}=1 in the environment"
)]
pub struct HostNotAllowed {
    /// The server's base URL.
    pub url: String,
    /// Its host.
    pub host: String,
}

/// Whether the server at `api` may be hurt: it is on this machine, or its host is `named` and `is_remote_allowed`.
///
/// # Errors
/// When it may not; nothing was called.
pub fn admit_host(api: &ApiUrl, named: &BTreeSet<String>, is_remote_allowed: bool) -> Result<(), HostNotAllowed> {
    let is_named = named.iter().any(|host| host.eq_ignore_ascii_case(&api.host));
    if api.is_on_loopback() || (is_named && is_remote_allowed) {
        return Ok(());
    }
    Err(HostNotAllowed { url: api.url.clone(), host: api.host.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_admitted(url: &str, named: &[&str], is_remote_allowed: bool) -> bool {
        let named = named.iter().map(ToString::to_string).collect();
        admit_host(&ApiUrl::parse(url).expect(url), &named, is_remote_allowed).is_ok()
    }

    #[test]
    fn a_host_elsewhere_must_be_allowed_twice() {
        assert!(is_admitted("http://127.0.0.1:8474", &[], false));
        assert!(is_admitted("http://staging:8474", &["Staging"], true));
        assert!(!is_admitted("http://staging:8474", &["staging"], false));
        assert!(!is_admitted("http://staging:8474", &[], true));
        assert!(!is_admitted("http://production:8474", &["staging"], true));
    }
}
