//! A lease as its holder sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::{ClientError, ToxiproxyClient, escaped};
use crate::tag::new_tag;

/// A lease on a proxy server, renewed each third of its time to live until it is dropped.
#[derive(Debug)]
pub struct ProxyLease {
    client: ToxiproxyClient,
    id: String,
    ttl: Duration,
    lost: Arc<AtomicBool>,
    renewal: JoinHandle<()>,
}

#[derive(Serialize)]
struct LeaseBody<'a> {
    id: &'a str,
    ttl_ms: u64,
}

impl ProxyLease {
    /// Takes a lease at the server that `client` talks to. None if that is a real Toxiproxy, which knows no leases.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn take(client: &ToxiproxyClient, ttl: Duration) -> Result<Option<Self>, ClientError> {
        let id = format!("stormproof-{}", new_tag());
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let body = LeaseBody { id: &id, ttl_ms };
        match client.send(Method::POST, "/leases", Some(&body), StatusCode::CREATED).await {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        let lost = Arc::new(AtomicBool::new(false));
        let renewal = tokio::spawn(keep_renewing(client.clone(), id.clone(), ttl, Arc::clone(&lost)));
        Ok(Some(Self { client: ToxiproxyClient { lease: Some(id.clone()), ..client.clone() }, id, ttl, lost, renewal }))
    }

    /// A client whose toxics and disabled proxies belong to this lease.
    #[must_use]
    pub fn client(&self) -> &ToxiproxyClient {
        &self.client
    }

    /// True once the server has said that it was not renewed in time: what it held is undone.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }

    /// Keeps it for another time to live, as happens by itself.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; 404 if it has ended.
    pub async fn renew(&self) -> Result<(), ClientError> {
        renew(&self.client, &self.id, self.ttl).await
    }

    /// Ends it and undoes what it still holds. One that has ended already is fine.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn end(self) -> Result<(), ClientError> {
        match self.client.send(Method::DELETE, &path(&self.id), None::<&()>, StatusCode::NO_CONTENT).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for ProxyLease {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

async fn keep_renewing(client: ToxiproxyClient, id: String, ttl: Duration, lost: Arc<AtomicBool>) {
    let mut beats = interval(ttl / 3);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        match renew(&client, &id, ttl).await {
            Err(error) if error.is_not_found() => return lost.store(true, Relaxed),
            // No answer is no reason to give up: the server ends the lease if it has to.
            Err(error) => tracing::debug!(%error, "a lease was not renewed"),
            Ok(()) => {}
        }
    }
}

async fn renew(client: &ToxiproxyClient, id: &str, ttl: Duration) -> Result<(), ClientError> {
    let body = LeaseBody { id, ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX) };
    client.send(Method::PATCH, &path(id), Some(&body), StatusCode::OK).await.map(drop)
}

fn path(id: &str) -> String {
    format!("/leases/{}", escaped(id))
}
