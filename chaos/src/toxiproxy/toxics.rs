//! The toxics of one proxy, and how changes reach its links.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::effects::{ProxyEffects, ToxicEffects};
use super::error::ApiError;
use super::proxy::{ProxyCore, lock};
use super::request::{NewToxic, ToxicChange};
use super::spec::{ToxicList, ToxicSpec};

/// How long an admin call waits for the links of a proxy. They answer within one turn; this bounds a starved machine.
pub(crate) const SETTLE_LIMIT: Duration = Duration::from_secs(1);

/// How many removed toxics a proxy remembers the effects of.
const REMEMBERED_TOXICS: usize = 256;

impl ProxyCore {
    /// The toxics now.
    pub(crate) fn list(&self) -> Arc<ToxicList> {
        Arc::clone(&self.toxics.borrow())
    }

    /// Adds a toxic, in effect on every open connection on return.
    pub(crate) async fn add_toxic(&self, new: &NewToxic) -> Result<ToxicSpec, ApiError> {
        let (version, spec) = self.insert(new)?;
        self.settle(version).await?;
        Ok(spec)
    }

    /// Adds a toxic without waiting for links: for a proxy that has none yet.
    pub(crate) fn insert(&self, new: &NewToxic) -> Result<(u64, ToxicSpec), ApiError> {
        self.change(|toxics| {
            if toxics.iter().any(|toxic| toxic.name == new.name) {
                return Err(ApiError::toxic_exists());
            }
            let spec = ToxicSpec {
                id: self.next_toxic.fetch_add(1, Relaxed),
                revision: 0,
                name: new.name.clone(),
                kind: new.kind.clone(),
                stream: new.stream,
                stream_text: new.stream_text.clone(),
                toxicity: new.toxicity,
                attributes: new.attributes(self.settings.strict)?,
                clients: new.clients()?,
                counters: Arc::default(),
                line: Arc::default(),
            };
            toxics.push(spec.clone());
            Ok(spec)
        })
    }

    /// Changes a toxic in place, in effect on every open connection on return.
    pub(crate) async fn update_toxic(&self, name: &str, change: &ToxicChange) -> Result<ToxicSpec, ApiError> {
        let clients = change.clients()?;
        let (version, spec) = self.change(|toxics| {
            let toxic = toxics.iter_mut().find(|toxic| toxic.name == name).ok_or_else(ApiError::toxic_not_found)?;
            toxic.attributes = change.merged(&toxic.attributes, self.settings.strict)?;
            if let Some(clients) = clients {
                toxic.clients = clients;
            }
            toxic.toxicity = change.toxicity.unwrap_or(toxic.toxicity);
            toxic.revision += 1;
            Ok(toxic.clone())
        })?;
        self.settle(version).await?;
        Ok(spec)
    }

    /// Removes a toxic; open connections are free of it on return.
    pub(crate) async fn remove_toxic(&self, name: &str) -> Result<(), ApiError> {
        let (version, removed) = self.change(|toxics| {
            let index = toxics.iter().position(|toxic| toxic.name == name).ok_or_else(ApiError::toxic_not_found)?;
            Ok(toxics.remove(index))
        })?;
        self.remember(vec![removed]);
        self.settle(version).await
    }

    /// Removes the toxic with this number, if it is still there.
    pub(crate) async fn remove_toxic_by_id(&self, id: u64) -> Result<(), ApiError> {
        let name = self.list().toxics.iter().find(|toxic| toxic.id == id).map(|toxic| toxic.name.clone());
        match name {
            Some(name) => self.remove_toxic(&name).await,
            None => Ok(()),
        }
    }

    /// Removes all toxics.
    pub(crate) async fn remove_toxics(&self) -> Result<(), ApiError> {
        let (version, removed) = self.change(|toxics| Ok(std::mem::take(toxics)))?;
        self.remember(removed);
        self.settle(version).await
    }

    /// What the proxy and its toxics did.
    pub(crate) fn effects(&self) -> ProxyEffects {
        let snapshot = |toxic: &ToxicSpec, removed| -> ToxicEffects {
            toxic.counters.snapshot(&toxic.name, &toxic.kind, toxic.stream, removed)
        };
        let mut toxics: Vec<_> =
            lock(&self.removed_toxics).iter().map(|toxic| (toxic.id, snapshot(toxic, true))).collect();
        toxics.extend(self.list().toxics.iter().map(|toxic| (toxic.id, snapshot(toxic, false))));
        toxics.sort_by_key(|(id, _)| *id);
        self.counters.snapshot(toxics.into_iter().map(|(_, effects)| effects).collect())
    }

    fn remember(&self, removed: Vec<ToxicSpec>) {
        let mut remembered = lock(&self.removed_toxics);
        remembered.extend(removed);
        while remembered.len() > REMEMBERED_TOXICS {
            remembered.pop_front();
        }
    }

    /// Changes the list, if `edit` agrees; answers with the version to wait for.
    fn change<T>(&self, edit: impl FnOnce(&mut Vec<ToxicSpec>) -> Result<T, ApiError>) -> Result<(u64, T), ApiError> {
        let mut result = Err(ApiError::internal("the list of toxics was not changed"));
        self.toxics.send_if_modified(|list| {
            let mut next = ToxicList::clone(list);
            result = edit(&mut next.toxics).map(|value| (list.version + 1, value));
            next.version += 1;
            if result.is_ok() {
                *list = Arc::new(next);
            }
            result.is_ok()
        });
        result
    }

    /// Waits until every link has the list of this version in effect. A link that has ended counts as done.
    async fn settle(&self, version: u64) -> Result<(), ApiError> {
        let links: Vec<_> = lock(&self.links).values().flatten().cloned().collect();
        let all = async {
            for mut applied in links {
                let _ = applied.wait_for(|applied| *applied >= version).await;
            }
        };
        tokio::time::timeout(SETTLE_LIMIT, all).await.map_err(|_| {
            ApiError::too_slow(format!(
                "the change is stored but not yet in effect on every connection after {} ms",
                SETTLE_LIMIT.as_millis()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::watch;

    use super::super::metrics::Metrics;
    use super::super::proxy::Proxy;
    use super::super::registry::Settings;
    use super::super::request::NewProxy;
    use super::super::room::Room;
    use super::super::server::DialFailure;
    use super::*;

    fn proxy() -> Proxy {
        let settings = Settings {
            seed: 0,
            strict: false,
            dial_limit: Duration::from_secs(1),
            dial_failure: DialFailure::Close,
            metrics: Metrics::default(),
            room: Room::of_this_process(),
        };
        let entry = json!({"name": "p", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"});
        Proxy::new(Arc::new(settings), &NewProxy::parse(&entry.into()).expect("an entry")).expect("a proxy")
    }

    fn noop() -> NewToxic {
        NewToxic::parse(&json!({"type": "noop"}).into()).expect("a toxic")
    }

    #[tokio::test]
    async fn a_change_returns_when_every_link_has_it_in_effect() {
        let proxy = proxy();
        let mut links = Vec::new();
        for number in 1..=3 {
            let applied = watch::Sender::new(0);
            proxy.core.remember_links(number, vec![applied.subscribe()]);
            links.push(applied.subscribe());
            let mut wanted = proxy.core.toxics.subscribe();
            tokio::spawn(async move {
                while wanted.changed().await.is_ok() {
                    // Busy with something else for a few turns.
                    for _ in 0..number * 5 {
                        tokio::task::yield_now().await;
                    }
                    applied.send_replace(wanted.borrow_and_update().version);
                }
            });
        }
        proxy.core.add_toxic(&noop()).await.expect("added");
        assert!(links.iter().all(|applied| *applied.borrow() == 1));
        proxy.core.remove_toxic("noop_downstream").await.expect("removed");
        assert!(links.iter().all(|applied| *applied.borrow() == 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_that_never_answers_bounds_the_call_and_a_dead_one_does_not_delay_it() {
        // P46
        let proxy = proxy();
        proxy.core.remember_links(1, vec![watch::Sender::new(0).subscribe()]);
        proxy.core.add_toxic(&noop()).await.expect("a link that has ended counts as done");
        let stuck = watch::Sender::new(0);
        proxy.core.remember_links(2, vec![stuck.subscribe()]);
        let start = tokio::time::Instant::now();
        let error = proxy.core.remove_toxic("noop_downstream").await.expect_err("not in effect");
        assert_eq!((error.status.as_u16(), start.elapsed()), (503, SETTLE_LIMIT));
        assert!(proxy.core.list().toxics.is_empty(), "the change is stored all the same");
    }
}
