//! Which handler a method and path mean.

use axum::http::Method;

/// A handler with its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    ListProxies,
    CreateProxy,
    Populate,
    ShowProxy(String),
    UpdateProxy(String),
    DeleteProxy(String),
    ListToxics(String),
    AddToxic(String),
    ShowToxic(String, String),
    UpdateToxic(String, String),
    RemoveToxic(String, String),
    Effects(String),
    TakeLease,
    RenewLease(String),
    EndLease(String),
    Reset,
    Version,
    Metrics,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Miss {
    UnknownPath,
    WrongMethod,
    /// The path has empty or dot segments; the clean one is given. One that is escaped is a name.
    Unclean(String),
    /// The path has a `%` without two hexadecimal digits.
    BadEscape,
}

/// What kind of resource a path names.
enum Place {
    Proxies,
    Populate,
    Proxy(String),
    Toxics(String),
    Toxic(String, String),
    Effects(String),
    Leases,
    Lease(String),
    Reset,
    Version,
    Metrics,
}

pub(crate) fn route(method: &Method, path: &str, has_metrics: bool) -> Result<Route, Miss> {
    // A slash that is escaped is part of a name.
    let segments: Vec<_> = path.split('/').map(unescaped).collect::<Option<_>>().ok_or(Miss::BadEscape)?;
    let clean = cleaned(path);
    if clean != path {
        return Err(Miss::Unclean(clean));
    }
    let place = place(&segments, has_metrics).ok_or(Miss::UnknownPath)?;
    let (get, post, patch) = (method == Method::GET, method == Method::POST, method == Method::PATCH);
    let delete = method == Method::DELETE;
    Ok(match place {
        Place::Proxies if get => Route::ListProxies,
        Place::Proxies if post => Route::CreateProxy,
        Place::Populate if post => Route::Populate,
        Place::Proxy(proxy) if get => Route::ShowProxy(proxy),
        Place::Proxy(proxy) if post || patch => Route::UpdateProxy(proxy),
        Place::Proxy(proxy) if delete => Route::DeleteProxy(proxy),
        Place::Toxics(proxy) if get => Route::ListToxics(proxy),
        Place::Toxics(proxy) if post => Route::AddToxic(proxy),
        Place::Toxic(proxy, toxic) if get => Route::ShowToxic(proxy, toxic),
        Place::Toxic(proxy, toxic) if post || patch => Route::UpdateToxic(proxy, toxic),
        Place::Toxic(proxy, toxic) if delete => Route::RemoveToxic(proxy, toxic),
        Place::Effects(proxy) if get => Route::Effects(proxy),
        Place::Leases if post => Route::TakeLease,
        Place::Lease(lease) if patch => Route::RenewLease(lease),
        Place::Lease(lease) if delete => Route::EndLease(lease),
        Place::Reset if post => Route::Reset,
        Place::Version if get => Route::Version,
        Place::Metrics if get => Route::Metrics,
        _ => return Err(Miss::WrongMethod),
    })
}

fn place(segments: &[String], has_metrics: bool) -> Option<Place> {
    let (before_slash, segments) = segments.split_first()?;
    if !before_slash.is_empty() {
        return None;
    }
    let words: Vec<_> = segments.iter().map(String::as_str).collect();
    let named = |index: usize| segments.get(index).filter(|name| !name.is_empty()).cloned();
    match words.as_slice() {
        ["proxies"] => Some(Place::Proxies),
        ["populate"] => Some(Place::Populate),
        ["reset"] => Some(Place::Reset),
        ["version"] => Some(Place::Version),
        ["metrics"] if has_metrics => Some(Place::Metrics),
        ["leases"] => Some(Place::Leases),
        ["leases", _] => named(1).map(Place::Lease),
        ["proxies", _] => named(1).map(Place::Proxy),
        ["proxies", _, "toxics"] => named(1).map(Place::Toxics),
        ["proxies", _, "effects"] => named(1).map(Place::Effects),
        ["proxies", _, "toxics", _] => Some(Place::Toxic(named(1)?, named(3)?)),
        _ => None,
    }
}

/// Go's `path.Clean`, with a final slash kept.
fn cleaned(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            other => kept.push(other),
        }
    }
    let slash = if path.ends_with('/') && !kept.is_empty() { "/" } else { "" };
    format!("/{}{slash}", kept.join("/"))
}

/// The text of a segment, unless it has a `%` without two hexadecimal digits.
fn unescaped(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = if *first == b'%' {
            bytes.extend(hex::decode(tail.get(..2)?).ok()?);
            &tail[2..]
        } else {
            bytes.push(*first);
            tail
        };
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: Method, path: &str) -> Result<Route, Miss> {
        route(&method, path, false)
    }

    #[test]
    fn names_are_taken_from_the_path() {
        assert_eq!(of(Method::GET, "/proxies/a%20b"), Ok(Route::ShowProxy("a b".to_owned())));
        assert_eq!(of(Method::GET, "/proxies/a%2fb"), Ok(Route::ShowProxy("a/b".to_owned())));
        assert_eq!(of(Method::GET, "/proxies/%2e%2E"), Ok(Route::ShowProxy("..".to_owned())));
        assert_eq!(of(Method::PATCH, "/proxies/a/toxics/t"), Ok(Route::UpdateToxic("a".to_owned(), "t".to_owned())));
        assert_eq!(of(Method::POST, "/proxies/toxics/toxics"), Ok(Route::AddToxic("toxics".to_owned())));
    }

    #[test]
    fn misses_are_told_apart() {
        // P75
        assert_eq!(of(Method::GET, "/metrics"), Err(Miss::UnknownPath));
        assert_eq!(route(&Method::GET, "/metrics", true), Ok(Route::Metrics));
        assert_eq!(of(Method::GET, "/nowhere"), Err(Miss::UnknownPath));
        assert_eq!(of(Method::GET, "/proxies/"), Err(Miss::UnknownPath));
        assert_eq!(of(Method::HEAD, "/proxies"), Err(Miss::WrongMethod));
        assert_eq!(of(Method::OPTIONS, "/version"), Err(Miss::WrongMethod));
        assert_eq!(of(Method::PUT, "/proxies/a"), Err(Miss::WrongMethod));
        assert_eq!(of(Method::GET, "//proxies"), Err(Miss::Unclean("/proxies".to_owned())));
        assert_eq!(of(Method::GET, "/proxies/../version/"), Err(Miss::Unclean("/version/".to_owned())));
        for path in ["/proxies/%", "/proxies/%4", "//proxies/%zz"] {
            assert_eq!(of(Method::GET, path), Err(Miss::BadEscape), "{path}");
        }
    }
}
