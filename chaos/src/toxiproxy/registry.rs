//! All proxies of a server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::error::ApiError;
use super::leases::Leases;
use super::metrics::Metrics;
use super::proxy::{Proxy, lock};
use super::request::NewProxy;
use super::room::Room;
use super::server::DialFailure;

/// What all proxies of a server share.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) strict: bool,
    pub(crate) dial_limit: Duration,
    pub(crate) dial_failure: DialFailure,
    pub(crate) metrics: Metrics,
    pub(crate) room: Room,
}

/// See the module.
pub(crate) struct Registry {
    pub(crate) settings: Arc<Settings>,
    pub(crate) leases: Arc<Leases>,
    proxies: Mutex<BTreeMap<String, Arc<Proxy>>>,
    /// Held by whoever changes which proxies exist; every step under it is bounded. Reads do not take it.
    changes: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("proxies", &lock(&self.proxies).keys()).finish_non_exhaustive()
    }
}

/// What populate did: the proxies that worked, and why it stopped.
pub(crate) struct Populated {
    pub(crate) proxies: Vec<Arc<Proxy>>,
    pub(crate) error: Option<ApiError>,
}

impl Registry {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
            leases: Arc::default(),
            proxies: Mutex::default(),
            changes: tokio::sync::Mutex::default(),
        }
    }

    /// All proxies by name.
    pub(crate) fn all(&self) -> BTreeMap<String, Arc<Proxy>> {
        lock(&self.proxies).clone()
    }

    pub(crate) fn get(&self, name: &str) -> Result<Arc<Proxy>, ApiError> {
        lock(&self.proxies).get(name).cloned().ok_or_else(ApiError::proxy_not_found)
    }

    pub(crate) async fn create(&self, new: &NewProxy) -> Result<Arc<Proxy>, ApiError> {
        if let Some(field) = new.missing_field() {
            return Err(ApiError::missing_field(field));
        }
        let _changing = self.changes.lock().await;
        if lock(&self.proxies).contains_key(&new.name) {
            return Err(ApiError::proxy_exists());
        }
        new.check_toxics(self.settings.strict)?;
        self.install(new).await
    }

    /// Adds or replaces proxies in order (P06 to P13). Checks come first; after that, the first failure stops it.
    pub(crate) async fn populate(&self, entries: &[NewProxy]) -> Result<Populated, ApiError> {
        for (index, entry) in entries.iter().enumerate() {
            if let Some(field) = entry.missing_field() {
                return Err(ApiError::missing_field(format!("{field} at proxy {}", index + 1)));
            }
            entry.check_toxics(self.settings.strict)?;
        }
        let _changing = self.changes.lock().await;
        let mut done = Populated { proxies: Vec::new(), error: None };
        for entry in entries {
            match self.add_or_replace(entry).await {
                Ok(proxy) => done.proxies.push(proxy),
                Err(error) => {
                    done.error = Some(error);
                    break;
                }
            }
        }
        Ok(done)
    }

    async fn add_or_replace(&self, entry: &NewProxy) -> Result<Arc<Proxy>, ApiError> {
        let existing = lock(&self.proxies).get(&entry.name).cloned();
        if let Some(existing) = existing {
            if !existing.differs(&entry.listen, &entry.upstream).await? {
                self.settle_unchanged(&existing, entry).await?;
                return Ok(existing);
            }
            existing.stop().await;
        }
        self.install(entry).await
    }

    /// An unchanged proxy stays untouched (P64), unless the server is strict: then it becomes what the entry says.
    async fn settle_unchanged(&self, existing: &Proxy, entry: &NewProxy) -> Result<(), ApiError> {
        if !self.settings.strict {
            return Ok(());
        }
        if !entry.toxics.is_empty() {
            existing.core.remove_toxics().await?;
            for toxic in &entry.toxics {
                existing.core.add_toxic(toxic).await?;
            }
        }
        if entry.enabled {
            existing.start().await
        } else {
            existing.stop().await;
            Ok(())
        }
    }

    async fn install(&self, new: &NewProxy) -> Result<Arc<Proxy>, ApiError> {
        let proxy = Arc::new(Proxy::new(Arc::clone(&self.settings), new)?);
        if new.enabled {
            proxy.start().await?;
        }
        let replaced = lock(&self.proxies).insert(new.name.clone(), Arc::clone(&proxy));
        if let Some(replaced) = replaced {
            replaced.delete().await;
        }
        Ok(proxy)
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<(), ApiError> {
        let _changing = self.changes.lock().await;
        let removed = lock(&self.proxies).remove(name).ok_or_else(ApiError::proxy_not_found)?;
        removed.delete().await;
        Ok(())
    }

    /// Enables every proxy and removes all toxics. Goes on after a failure and reports all (P76).
    pub(crate) async fn reset(&self) -> Result<(), ApiError> {
        let _changing = self.changes.lock().await;
        let mut failures = Vec::new();
        for (name, proxy) in self.all() {
            if let Err(error) = proxy.start().await {
                failures.push(format!("{name}: {error}"));
            }
            if let Err(error) = proxy.core.remove_toxics().await {
                failures.push(format!("{name}: {error}"));
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(ApiError::internal(format!("not everything could be reset: {}", failures.join("; "))))
    }

    /// Tells everything to stop, without waiting for it.
    pub(crate) fn cut_all(&self) {
        for proxy in self.all().into_values() {
            proxy.cut();
        }
    }

    /// Stops everything.
    pub(crate) async fn clear(&self) {
        let _changing = self.changes.lock().await;
        let all = std::mem::take(&mut *lock(&self.proxies));
        for proxy in all.into_values() {
            proxy.delete().await;
        }
    }
}
