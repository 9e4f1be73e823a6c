//! The handlers.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Response, StatusCode};
use serde::Serialize;

use super::Api;
use super::answer;
use super::route::Route;
use crate::toxiproxy::TOXIPROXY_VERSION;
use crate::toxiproxy::error::ApiError;
use crate::toxiproxy::go_json::Json;
use crate::toxiproxy::leases::LeaseRequest;
use crate::toxiproxy::metrics::render_build_info;
use crate::toxiproxy::proxy::ProxyDocument;
use crate::toxiproxy::registry::{Populated, Registry};
use crate::toxiproxy::request::{NewProxy, NewToxic, ProxyChange, ToxicChange};

/// The largest body read, in bytes. 8 MiB.
const BODY_CAP_BYTES: usize = 8 << 20;

type Answer = Result<Response<Body>, ApiError>;

#[derive(Serialize)]
struct PopulateDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// `null` when there is none, as Go writes an empty slice that was never made.
    proxies: Option<Vec<ProxyDocument>>,
}

impl Api {
    pub(super) async fn dispatch(&self, route: Route, lease: Option<&str>, body: Body) -> Response<Body> {
        let answer = match route {
            Route::ListProxies => Ok(self.list_proxies()),
            Route::CreateProxy => self.create_proxy(body).await,
            Route::Populate => Ok(self.populate(body).await),
            Route::ShowProxy(proxy) => self.show_proxy(&proxy),
            Route::UpdateProxy(proxy) => self.update_proxy(&proxy, lease, body).await,
            Route::DeleteProxy(proxy) => self.registry.delete(&proxy).await.map(no_content),
            Route::ListToxics(proxy) => self.list_toxics(&proxy),
            Route::AddToxic(proxy) => self.add_toxic(&proxy, lease, body).await,
            Route::ShowToxic(proxy, toxic) => self.show_toxic(&proxy, &toxic),
            Route::UpdateToxic(proxy, toxic) => self.update_toxic(&proxy, &toxic, body).await,
            Route::RemoveToxic(proxy, toxic) => self.remove_toxic(&proxy, &toxic).await,
            Route::Effects(proxy) => self.effects(&proxy),
            Route::TakeLease => self.take_lease(body).await,
            Route::RenewLease(lease) => self.renew_lease(&lease, body).await,
            Route::EndLease(lease) => self.registry.leases.end(&lease).await.map(no_content),
            Route::Reset => self.registry.reset().await.map(no_content),
            Route::Version => {
                // P32, byte for byte.
                let version = format!("{{\"version\": \"{TOXIPROXY_VERSION}\"}}\n");
                Ok(answer::with_body(StatusCode::OK, "application/json;charset=utf-8", version))
            }
            Route::Metrics => Ok(self.metrics()),
        };
        answer.unwrap_or_else(|error| answer::error(&error))
    }

    fn list_proxies(&self) -> Response<Body> {
        let all: BTreeMap<_, _> =
            self.registry.all().into_iter().map(|(name, proxy)| (name, proxy.document())).collect();
        answer::json(StatusCode::OK, &all)
    }

    async fn create_proxy(&self, body: Body) -> Answer {
        let new = NewProxy::parse(&self.read_value(body).await?)?;
        let proxy = self.registry.create(&new).await?;
        Ok(answer::json(StatusCode::CREATED, &proxy.document()))
    }

    async fn populate(&self, body: Body) -> Response<Body> {
        let done = match self.read(body).await {
            Ok(body) => populate(&self.registry, &body).await,
            Err(error) => Err(error),
        };
        let (error, proxies) = match done {
            Ok(Populated { proxies, error }) => (error, proxies),
            Err(error) => (Some(error), Vec::new()),
        };
        if let Some(error) = &error {
            tracing::warn!(%error, "populate failed");
        }
        let status = error.as_ref().map_or(StatusCode::CREATED, |error| error.status);
        let document = PopulateDocument {
            status: error.as_ref().map(|error| error.status.as_u16()),
            error: error.map(|error| error.message),
            proxies: (!proxies.is_empty()).then(|| proxies.iter().map(|proxy| proxy.document()).collect()),
        };
        answer::json(status, &document)
    }

    fn show_proxy(&self, proxy: &str) -> Answer {
        Ok(answer::json(StatusCode::OK, &self.registry.get(proxy)?.document()))
    }

    async fn update_proxy(&self, proxy: &str, lease: Option<&str>, body: Body) -> Answer {
        let proxy = self.registry.get(proxy)?;
        let change = ProxyChange::parse(&self.read_value(body).await?)?;
        if let Some(lease) = lease
            && change.enabled == Some(false)
            && proxy.state().enabled
        {
            self.registry.leases.hold_disabled(lease, &proxy)?;
        }
        proxy.update(change).await?;
        Ok(answer::json(StatusCode::OK, &proxy.document()))
    }

    fn list_toxics(&self, proxy: &str) -> Answer {
        let list = self.registry.get(proxy)?.core.list();
        Ok(answer::json(StatusCode::OK, &list.listed()))
    }

    async fn add_toxic(&self, proxy: &str, lease: Option<&str>, body: Body) -> Answer {
        let proxy = self.registry.get(proxy)?;
        let new = NewToxic::parse(&self.read_value(body).await?)?;
        let spec = proxy.core.add_toxic(&new).await?;
        if let Some(lease) = lease
            && let Err(ended) = self.registry.leases.hold_toxic(lease, &proxy, spec.id)
        {
            proxy.core.remove_toxic_by_id(spec.id).await?;
            return Err(ended);
        }
        Ok(answer::json(StatusCode::OK, &spec))
    }

    fn show_toxic(&self, proxy: &str, toxic: &str) -> Answer {
        let list = self.registry.get(proxy)?.core.list();
        let found = list.toxics.iter().find(|spec| spec.name == toxic).ok_or_else(ApiError::toxic_not_found)?;
        Ok(answer::json(StatusCode::OK, found))
    }

    async fn update_toxic(&self, proxy: &str, toxic: &str, body: Body) -> Answer {
        let proxy = self.registry.get(proxy)?;
        let list = proxy.core.list();
        let found = list.toxics.iter().find(|spec| spec.name == toxic).ok_or_else(ApiError::toxic_not_found)?;
        let change = ToxicChange::parse(&self.read_value(body).await?, &found.kind)?;
        let spec = proxy.core.update_toxic(toxic, &change).await?;
        Ok(answer::json(StatusCode::OK, &spec))
    }

    async fn remove_toxic(&self, proxy: &str, toxic: &str) -> Answer {
        self.registry.get(proxy)?.core.remove_toxic(toxic).await.map(no_content)
    }

    fn effects(&self, proxy: &str) -> Answer {
        Ok(answer::json(StatusCode::OK, &self.registry.get(proxy)?.core.effects()))
    }

    async fn take_lease(&self, body: Body) -> Answer {
        self.registry.leases.take(LeaseRequest::parse(&self.read_value(body).await?)?)?;
        Ok(answer::empty(StatusCode::CREATED))
    }

    async fn renew_lease(&self, lease: &str, body: Body) -> Answer {
        self.registry.leases.renew(lease, &LeaseRequest::parse(&self.read_value(body).await?)?)?;
        Ok(answer::empty(StatusCode::OK))
    }

    async fn read(&self, body: Body) -> Result<Bytes, ApiError> {
        let whole = tokio::time::timeout(self.read_limit, to_bytes(body, BODY_CAP_BYTES)).await;
        let late = |_| ApiError::too_slow(format!("no whole body within {} ms", self.read_limit.as_millis()));
        whole.map_err(late)?.map_err(ApiError::bad_body)
    }

    async fn read_value(&self, body: Body) -> Result<Json, ApiError> {
        Ok(Json::first_of(&self.read(body).await?)?)
    }

    fn metrics(&self) -> Response<Body> {
        let mut text = String::new();
        if self.runtime_metrics {
            text.push_str(&render_build_info());
        }
        if self.proxy_metrics {
            text.push_str(&self.registry.settings.metrics.render_proxies());
        }
        answer::with_body(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
    }
}

/// Applies a populate body, e.g. a config file.
///
/// # Errors
///
/// The first thing that failed; earlier entries stay.
pub(crate) async fn populate_text(registry: &Registry, body: &str) -> Result<(), ApiError> {
    populate(registry, &Bytes::copy_from_slice(body.as_bytes())).await?.error.map_or(Ok(()), Err)
}

async fn populate(registry: &Registry, body: &Bytes) -> Result<Populated, ApiError> {
    registry.populate(&NewProxy::parse_list(&Json::first_of(body)?)?).await
}

fn no_content((): ()) -> Response<Body> {
    answer::empty(StatusCode::NO_CONTENT)
}
