//! How far the base URL of an API reaches.

use std::net::IpAddr;

/// An API's base URL, understood before anything is sent to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiUrl {
    /// As it was given, without a final slash.
    pub url: String,
    /// The host that would be called, as in the URL; an IPv6 address without brackets.
    pub host: String,
}

/// It cannot be the base URL of an API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{url}` is no base URL of a Toxiproxy API ({problem}); it looks like http://127.0.0.1:8474")]
pub struct BadApiUrl {
    /// What was given, without the user and password that it may hold.
    pub url: String,
    /// What is wrong with it.
    pub problem: String,
}

impl ApiUrl {
    /// Understands `text`.
    ///
    /// # Errors
    /// When it is no URL, or not one of plain HTTP, or holds a password: that would stand in every journal, log and
    /// result.
    pub fn parse(text: &str) -> Result<Self, BadApiUrl> {
        let bad = |problem: String| BadApiUrl { url: without_user(text), problem };
        let url = reqwest::Url::parse(text).map_err(|error| bad(error.to_string()))?;
        if url.scheme() != "http" {
            return Err(bad(format!("the scheme is {}, not http", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it holds a user or password, and the API knows neither".to_owned()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it does not end with its path".to_owned()));
        }
        let host = url.host_str().ok_or_else(|| bad("it has no host".to_owned()))?;
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Self { url: text.trim_end_matches('/').to_owned(), host })
    }

    /// True if only this machine can be meant.
    #[must_use]
    pub fn is_on_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>().map(|address| address.to_canonical());
        address.map_or(self.host == "localhost", |address| address.is_loopback())
    }
}

/// What may be printed of `text`.
fn without_user(text: &str) -> String {
    let Some((before, host)) = text.rsplit_once('@') else { return text.to_owned() };
    let scheme = before.split_once("//").map_or(String::new(), |(scheme, _)| format!("{scheme}//"));
    format!("{scheme}…@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_on_loopback(text: &str) -> bool {
        ApiUrl::parse(text).expect(text).is_on_loopback()
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for here in [
            "http://127.0.0.1:8474",
            "http://127.9.8.7",
            "http://localhost:8474/",
            "http://LOCALHOST",
            "http://[::1]:1",
            "http://[::ffff:127.0.0.1]:1",
            // Another way to write 127.0.0.1.
            "http://2130706433:8474",
        ] {
            assert!(is_on_loopback(here), "{here}");
        }
        for elsewhere in [
            "http://10.0.0.1:8474",
            "http://0.0.0.0:8474",
            "http://staging:8474",
            "http://localhost.example:8474",
            "http://[::2]:1",
        ] {
            assert!(!is_on_loopback(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn what_cannot_be_called_is_told() {
        for (text, problem) in [
            ("127.0.0.1:8474", "relative URL"),
            ("https://127.0.0.1", "the scheme is https"),
            ("http://127.0.0.1@staging:8474", "a user or password"),
            ("http://127.0.0.1?a=b", "does not end with its path"),
        ] {
            let error = ApiUrl::parse(text).expect_err(text).to_string();
            assert!(error.contains(problem) && error.contains("http://127.0.0.1:8474"), "{error}");
        }
    }

    #[test]
    fn no_password_is_repeated() {
        for text in ["http://me:secret@127.0.0.1:8474", "https://me:secret@host", "me:secret@host", "//me:se@cret@host"]
        {
            let error = ApiUrl::parse(text).expect_err(text).to_string();
            assert!(!error.contains("cret") && !error.contains("me:") && error.contains("…@"), "{error}");
        }
    }
}
