//! The async client, for our server and for a real Toxiproxy.
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | `check` | whether a toxic would do what its attributes say |
//! | `model` | proxies and toxics as clients see them |
//! | `lease` | faults that end in the server if nobody renews them |
//! | `reach` | whether a base URL stays on this machine |
//! | `error` | what can go wrong, with the server's message |

mod check;
mod error;
mod lease;
mod model;
mod reach;

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use check::BadToxic;
pub use error::ClientError;
pub use lease::ProxyLease;
pub use model::{Proxy, ProxyUpdate, Toxic};
pub use reach::{ApiUrl, BadApiUrl};

use super::effects::ProxyEffects;
use super::leases::LEASE_HEADER;
use error::refusal;
use model::{PopulateAnswer, ToxicUpdate, VersionAnswer};

/// How long one request may take unless told otherwise. Our server answers within about 1 s whatever peers do; a real
/// Toxiproxy may hang for 25 s.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of an answer, at most: 16 MiB, room for ten thousands of toxics. Whoever sends more is no Toxiproxy.
const ANSWER_CAP_BYTES: usize = 16 << 20;

/// See the module. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToxiproxyClient {
    base: String,
    http: reqwest::Client,
    limit: Duration,
    /// What is done belongs to this lease.
    lease: Option<String>,
}

impl ToxiproxyClient {
    /// A client of the API at `base_url`, e.g. `http://127.0.0.1:8474`. Nothing is sent yet.
    #[must_use]
    pub fn new(base_url: impl Into<String>) -> Self {
        // The environment's proxy settings would send loopback requests elsewhere, and so would a redirect: whether a
        // host may be hurt was decided for this one.
        let built = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("stormproof-chaos/", env!("CARGO_PKG_VERSION")))
            .build();
        let http = built.expect("a client without TLS has nothing that can fail to load");
        let base = base_url.into().trim_end_matches('/').to_owned();
        Self { base, http, limit: REQUEST_LIMIT, lease: None }
    }

    /// The same client with another limit per request.
    #[must_use]
    pub fn with_request_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The base URL, without a final slash.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// The server's version.
    ///
    /// # Errors
    ///
    /// [`ClientError`], as for every call here.
    pub async fn version(&self) -> Result<String, ClientError> {
        let answer: VersionAnswer = self.fetch("/version").await?;
        Ok(answer.version)
    }

    /// All proxies, by name.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn list(&self) -> Result<BTreeMap<String, Proxy>, ClientError> {
        self.fetch("/proxies").await
    }

    /// One proxy.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; 404 if there is none.
    pub async fn get(&self, proxy: &str) -> Result<Proxy, ClientError> {
        self.fetch(&proxy_path(proxy)).await
    }

    /// Creates a proxy. Its toxics are in place before the listener opens, but a real Toxiproxy ignores them: compare
    /// the answer.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; 409 if the name is taken, 500 if the address is.
    pub async fn create(&self, proxy: &Proxy) -> Result<Proxy, ClientError> {
        self.call(Method::POST, "/proxies", Some(proxy), StatusCode::CREATED).await
    }

    /// Changes a proxy; absent fields keep their value.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn update(&self, proxy: &str, change: &ProxyUpdate) -> Result<Proxy, ClientError> {
        self.call(Method::PATCH, &proxy_path(proxy), Some(change), StatusCode::OK).await
    }

    /// Opens the proxy's port.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn enable(&self, proxy: &str) -> Result<Proxy, ClientError> {
        self.update(proxy, &ProxyUpdate { enabled: Some(true), ..ProxyUpdate::default() }).await
    }

    /// Closes the proxy's port and cuts its connections.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn disable(&self, proxy: &str) -> Result<Proxy, ClientError> {
        self.update(proxy, &ProxyUpdate { enabled: Some(false), ..ProxyUpdate::default() }).await
    }

    /// Deletes a proxy.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; 404 if there is none, see [`ClientError::is_not_found`].
    pub async fn delete(&self, proxy: &str) -> Result<(), ClientError> {
        self.send(Method::DELETE, &proxy_path(proxy), None::<&()>, StatusCode::NO_CONTENT).await.map(drop)
    }

    /// Adds or replaces proxies; unchanged ones keep their connections and toxics.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; entries before the one that failed stay.
    pub async fn populate(&self, proxies: &[Proxy]) -> Result<Vec<Proxy>, ClientError> {
        let answer: PopulateAnswer = self.call(Method::POST, "/populate", Some(proxies), StatusCode::CREATED).await?;
        Ok(answer.proxies.unwrap_or_default())
    }

    /// The toxics of a proxy, upstream ones first.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn toxics(&self, proxy: &str) -> Result<Vec<Toxic>, ClientError> {
        self.fetch(&format!("{}/toxics", proxy_path(proxy))).await
    }

    /// One toxic.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; 404 if there is none.
    pub async fn toxic(&self, proxy: &str, toxic: &str) -> Result<Toxic, ClientError> {
        self.fetch(&toxic_path(proxy, toxic)).await
    }

    /// Adds a toxic; with our server it is in effect on every open connection on return.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; 409 if the name is taken.
    pub async fn add_toxic(&self, proxy: &str, toxic: &Toxic) -> Result<Toxic, ClientError> {
        self.call(Method::POST, &format!("{}/toxics", proxy_path(proxy)), Some(toxic), StatusCode::OK).await
    }

    /// Gives the toxic with `toxic`'s name its attributes and toxicity. Attributes that are not given keep their value.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn update_toxic(&self, proxy: &str, toxic: &Toxic) -> Result<Toxic, ClientError> {
        let change = ToxicUpdate { toxicity: toxic.toxicity, attributes: &toxic.attributes };
        self.call(Method::PATCH, &toxic_path(proxy, &toxic.name), Some(&change), StatusCode::OK).await
    }

    /// Removes a toxic.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; 404 if there is none, see [`ClientError::is_not_found`].
    pub async fn remove_toxic(&self, proxy: &str, toxic: &str) -> Result<(), ClientError> {
        self.send(Method::DELETE, &toxic_path(proxy, toxic), None::<&()>, StatusCode::NO_CONTENT).await.map(drop)
    }

    /// Enables **every** proxy and removes **every** toxic, also those of others.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn reset(&self) -> Result<(), ClientError> {
        self.send(Method::POST, "/reset", None::<&()>, StatusCode::NO_CONTENT).await.map(drop)
    }

    /// What a proxy and its toxics did. Our server only; a real Toxiproxy answers 404.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn effects(&self, proxy: &str) -> Result<ProxyEffects, ClientError> {
        self.fetch(&format!("{}/effects", proxy_path(proxy))).await
    }

    async fn fetch<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(Method::GET, path, None::<&()>, StatusCode::OK).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
        expected: StatusCode,
    ) -> Result<T, ClientError> {
        let bytes = self.send(method.clone(), path, body, expected).await?;
        serde_json::from_slice(&bytes)
            .map_err(|source| ClientError::Answer { request: format!("{method} {path}"), source })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
        expected: StatusCode,
    ) -> Result<Vec<u8>, ClientError> {
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.base)).timeout(self.limit);
        // Sent without a body as well: Toxiproxy's own client does so (P63).
        request = request.header("content-type", "application/json");
        if let Some(lease) = &self.lease {
            request = request.header(LEASE_HEADER, lease);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let failed =
            |source| ClientError::Transport { request: format!("{method} {path}"), server: self.base.clone(), source };
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if bytes.len() + chunk.len() > ANSWER_CAP_BYTES {
                return Err(ClientError::TooLong { request: format!("{method} {path}"), cap_bytes: ANSWER_CAP_BYTES });
            }
            bytes.extend_from_slice(&chunk);
        }
        if status != expected {
            return Err(refusal(format!("{method} {path}"), status, &bytes));
        }
        Ok(bytes)
    }
}

fn proxy_path(proxy: &str) -> String {
    format!("/proxies/{}", escaped(proxy))
}

fn toxic_path(proxy: &str, toxic: &str) -> String {
    format!("/proxies/{}/toxics/{}", escaped(proxy), escaped(toxic))
}

/// A name as one segment of a path.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests;
