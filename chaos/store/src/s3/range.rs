//! Ranges that S3 ignores: those it cannot read, and those of several pieces. The whole object is the answer.
//!
//! The protocol crate refuses them with 400, but only after it has checked the signature, of which the header may be a
//! part. So the request is taken aside once its signature is known to be right, and asked again without the header.

use hyper::header::{AUTHORIZATION, HeaderMap, RANGE};
use hyper::http::Extensions;
use hyper::{Method, Request, Uri};
use s3s::dto::Range;
use s3s::route::S3Route;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use super::Gateway;
use super::access::check_signed;
use crate::edge::operation::{Operation, Target};

/// Answers reads whose range is none.
pub(crate) struct IgnoredRange {
    /// Asks for no signature.
    reads: S3Service,
}

impl IgnoredRange {
    pub(crate) fn new(gateway: Gateway) -> Self {
        Self { reads: S3ServiceBuilder::new(gateway).build() }
    }
}

/// The request again, without the header and its signature.
fn plain(request: S3Request<Body>) -> S3Result<Request<Body>> {
    let S3Request { input, method, uri, mut headers, extensions, .. } = request;
    headers.remove(RANGE);
    headers.remove(AUTHORIZATION);
    let query = uri.query().unwrap_or_default().split('&');
    let query: Vec<&str> = query.filter(|pair| !pair.starts_with("X-Amz-")).collect();
    let target = format!("{}?{}", uri.path(), query.join("&"));
    let uri: Uri = target.parse().map_err(|_| s3_error!(InvalidURI, "{target:?} is no path and query"))?;
    let mut plain = Request::new(input);
    *plain.method_mut() = method;
    *plain.uri_mut() = uri;
    *plain.headers_mut() = headers;
    *plain.extensions_mut() = extensions;
    Ok(plain)
}

#[async_trait::async_trait]
impl S3Route for IgnoredRange {
    fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        let Some(range) = headers.get(RANGE) else { return false };
        // The protocol crate reads a lone hyphen as the last 0 bytes.
        let readable = range.to_str().is_ok_and(|text| text != "bytes=-" && Range::parse(text).is_ok());
        let operation = || Target::of(method, uri.path(), uri.query(), headers).operation;
        !readable && matches!(operation(), Operation::GetObject | Operation::HeadObject)
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        check_signed(&request.uri, &request.headers)?;
        let answer = self.reads.call(plain(request)?).await;
        let (head, body) =
            answer.map_err(|error| S3Error::with_source(S3ErrorCode::InternalError, error.into()))?.into_parts();
        let mut response = S3Response::new(body);
        response.status = Some(head.status);
        response.headers = head.headers;
        response.extensions = head.extensions;
        Ok(response)
    }
}
