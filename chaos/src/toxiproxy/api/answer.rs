//! Responses in Toxiproxy's form.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::toxiproxy::error::ApiError;

const JSON: &str = "application/json";
/// The type of a plain text.
pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";

#[derive(Serialize)]
struct ErrorDocument<'a> {
    error: &'a str,
    status: u16,
}

/// A JSON body, without a final newline.
pub(crate) fn json(status: StatusCode, document: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(document) {
        Ok(body) => with_body(status, JSON, body),
        Err(failure) => error(&ApiError::internal(format!("the answer cannot be written as JSON: {failure}"))),
    }
}

/// An error: JSON, but named plain text, with a final newline. That is how Go's `http.Error` sends it.
pub(crate) fn error(error: &ApiError) -> Response<Body> {
    let document = ErrorDocument { error: &error.message, status: error.status.as_u16() };
    let mut body = serde_json::to_string(&document).unwrap_or_default();
    body.push('\n');
    text(error.status, body)
}

/// Plain text, as Go's `http.Error` sends it.
pub(crate) fn text(status: StatusCode, body: impl Into<String>) -> Response<Body> {
    let mut response = with_body(status, PLAIN, body.into());
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// No body.
pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// 301 to a clean path, with the query as it was.
pub(crate) fn moved(path: &str, query: Option<&str>) -> Response<Body> {
    let mut response = empty(StatusCode::MOVED_PERMANENTLY);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    set(&mut response, header::LOCATION, &format!("{path}{query}"));
    response
}

/// A body of any type.
pub(crate) fn with_body(status: StatusCode, content_type: &str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    set(&mut response, header::CONTENT_TYPE, content_type);
    response
}

fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
}
