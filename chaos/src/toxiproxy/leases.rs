//! Leases: what was done under one is undone here, in the proxy, if it is not renewed in time.
//!
//! An addition to Toxiproxy's API. `POST /leases` takes a lease, a toxic that is added or a proxy that is disabled with
//! the header [`LEASE_HEADER`] belongs to it, `PATCH /leases/{id}` renews it, `DELETE /leases/{id}` ends it. So a fault
//! ends although whoever asked for it, and its guardian, are stopped, dead or cut off.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::error::ApiError;
use super::go_json::Json;
use super::proxy::{Proxy, lock};

/// Names the lease that a change belongs to.
pub(crate) const LEASE_HEADER: &str = "x-stormproof-lease";

/// What is said of a lease that has ended.
pub(crate) const LEASE_NOT_FOUND: &str = "lease not found: it has ended, or was never taken";

/// Most leases of a server at one time.
const MAX_LEASES: usize = 1024;

/// The longest time to live, in milliseconds. One hour.
const MAX_TTL_MS: i64 = 3_600_000;

/// One change that a lease undoes.
enum Held {
    /// The toxic with this number, whatever it is called by then.
    Toxic { proxy: Weak<Proxy>, id: u64 },
    /// The proxy, disabled in this one of its runs. Whoever enables it has undone that: if it is disabled later, that is
    /// somebody else's change.
    Disabled { proxy: Weak<Proxy>, run: u64 },
}

struct Lease {
    ends: Instant,
    held: Vec<Held>,
}

/// All leases of a server.
#[derive(Default)]
pub(crate) struct Leases(Mutex<BTreeMap<String, Lease>>);

/// The body of `POST /leases` and `PATCH /leases/{id}`.
pub(crate) struct LeaseRequest {
    id: String,
    ttl: Duration,
}

impl LeaseRequest {
    pub(crate) fn parse(body: &Json) -> Result<Self, ApiError> {
        const OWNER: &str = "Lease";
        let (mut id, mut ttl_ms) = (None, None);
        for field in body.fields(OWNER)? {
            match field.key() {
                "id" => id = field.string(OWNER)?.or(id),
                "ttl_ms" => ttl_ms = field.integer(OWNER)?.or(ttl_ms),
                _ => {}
            }
        }
        let ttl_ms = ttl_ms.ok_or_else(|| ApiError::missing_field("ttl_ms"))?;
        if !(1..=MAX_TTL_MS).contains(&ttl_ms) {
            return Err(ApiError::bad_body(format!("ttl_ms is {ttl_ms}, must be within 1 and {MAX_TTL_MS}")));
        }
        Ok(Self { id: id.unwrap_or_default(), ttl: Duration::from_millis(ttl_ms.unsigned_abs()) })
    }
}

impl Leases {
    /// Takes a new lease, which ends by itself.
    pub(crate) fn take(self: &Arc<Self>, request: LeaseRequest) -> Result<(), ApiError> {
        let LeaseRequest { id, ttl } = request;
        if id.is_empty() {
            return Err(ApiError::missing_field("id"));
        }
        let mut leases = lock(&self.0);
        if leases.contains_key(&id) {
            return Err(ApiError::lease_exists());
        }
        if leases.len() >= MAX_LEASES {
            return Err(ApiError::too_slow(format!("there are {MAX_LEASES} leases already")));
        }
        let ends = Instant::now() + ttl;
        leases.insert(id.clone(), Lease { ends, held: vec![] });
        // Not held by the task: a server that is dropped needs no undoing.
        tokio::spawn(end_when_due(Arc::downgrade(self), id, ends));
        Ok(())
    }

    /// Renews a lease that has not ended.
    pub(crate) fn renew(&self, id: &str, request: &LeaseRequest) -> Result<(), ApiError> {
        let mut leases = lock(&self.0);
        let lease = leases.get_mut(id).ok_or_else(ApiError::lease_not_found)?;
        lease.ends = Instant::now() + request.ttl;
        Ok(())
    }

    /// Ends a lease now.
    pub(crate) async fn end(&self, id: &str) -> Result<(), ApiError> {
        let lease = lock(&self.0).remove(id).ok_or_else(ApiError::lease_not_found)?;
        undo(lease.held).await;
        Ok(())
    }

    /// Says that the toxic belongs to the lease. Call it after the toxic was added: if the lease has ended since, the
    /// caller must take the toxic away again.
    pub(crate) fn hold_toxic(&self, id: &str, proxy: &Arc<Proxy>, toxic: u64) -> Result<(), ApiError> {
        self.hold(id, Held::Toxic { proxy: Arc::downgrade(proxy), id: toxic })
    }

    /// Says that the proxy is to be enabled when the lease ends. Call it before it is disabled.
    pub(crate) fn hold_disabled(&self, id: &str, proxy: &Arc<Proxy>) -> Result<(), ApiError> {
        self.hold(id, Held::Disabled { proxy: Arc::downgrade(proxy), run: proxy.runs() })
    }

    fn hold(&self, id: &str, held: Held) -> Result<(), ApiError> {
        lock(&self.0).get_mut(id).ok_or_else(ApiError::lease_not_found)?.held.push(held);
        Ok(())
    }

    /// What the lease holds if it is over, or when it will be.
    fn take_if_over(&self, id: &str) -> Option<Result<Vec<Held>, Instant>> {
        let mut leases = lock(&self.0);
        let ends = leases.get(id)?.ends;
        if ends > Instant::now() {
            return Some(Err(ends));
        }
        Some(Ok(leases.remove(id)?.held))
    }
}

async fn end_when_due(leases: Weak<Leases>, id: String, first_end: Instant) {
    let mut ends = first_end;
    loop {
        sleep_until(ends).await;
        match leases.upgrade().and_then(|leases| leases.take_if_over(&id)) {
            None => return,
            Some(Err(later)) => ends = later,
            Some(Ok(held)) => {
                tracing::warn!(lease = %id, changes = held.len(), "a lease was not renewed, so what it held is undone");
                return undo(held).await;
            }
        }
    }
}

/// In reverse order. What somebody else has undone meanwhile is done.
async fn undo(held: Vec<Held>) {
    for change in held.into_iter().rev() {
        let result = match change {
            Held::Toxic { proxy, id } => match proxy.upgrade() {
                Some(proxy) => proxy.core.remove_toxic_by_id(id).await,
                None => Ok(()),
            },
            Held::Disabled { proxy, run } => match proxy.upgrade() {
                Some(proxy) if proxy.runs() == run => proxy.start().await,
                _ => Ok(()),
            },
        };
        if let Err(error) = result {
            tracing::warn!(%error, "a change whose lease ended could not be undone");
        }
    }
}
