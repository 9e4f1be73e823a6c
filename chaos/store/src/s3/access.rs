//! What AWS refuses of a request whose signature is right, and the protocol crate lets through.

use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{StatusCode, Uri};
use percent_encoding::percent_decode_str;
use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3Result, s3_error};

use super::errors::custom;

/// Longest life of a presigned URL, in seconds: a week.
const MAX_EXPIRES_SECONDS: u64 = 604_800;
/// Most bytes of the names and values of an object's user metadata.
const MAX_METADATA_BYTES: usize = 2 << 10;
/// Operations that give an object its user metadata and tags.
const DESCRIBING: [&str; 3] = ["PutObject", "CopyObject", "CreateMultipartUpload"];

/// Lets in who has signed, and whose request is one that AWS takes.
pub(crate) struct Access;

#[async_trait::async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        if cx.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "the request is not signed; sign it with the keys of this server"));
        }
        check_signed(cx.uri(), cx.headers())?;
        if DESCRIBING.contains(&cx.s3_op().name()) {
            check_description(cx.headers())?;
        }
        Ok(())
    }
}

/// What is checked of every request that is signed: the life of its URL, that all of its `x-amz-*` headers are signed
/// too, and that it asks for no version.
pub(crate) fn check_signed(uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    let query = Query::of(uri);
    if query.number("X-Amz-Expires").is_some_and(|seconds| seconds > MAX_EXPIRES_SECONDS) {
        let message = format!("X-Amz-Expires must be at most a week, which is {MAX_EXPIRES_SECONDS} seconds");
        return Err(custom("AuthorizationQueryParametersError", StatusCode::BAD_REQUEST, message));
    }
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let signed = match authorization {
        Some(text) => text.split_once("SignedHeaders=").map(|(_, rest)| rest.split(',').next().unwrap_or(rest).trim()),
        None => query.get("X-Amz-SignedHeaders"),
    };
    if let Some(signed) = signed
        && let Some(name) = unsigned_header(headers, signed)
    {
        return Err(s3_error!(AccessDenied, "There were headers present in the request which were not signed: {name}"));
    }
    check_version(query.get("versionId"))
}

/// The first `x-amz-*` header that is not in the list. The hash of the body is left out: it is checked by itself.
fn unsigned_header<'a>(headers: &'a HeaderMap, signed: &str) -> Option<&'a str> {
    let mut names = headers.keys().map(hyper::header::HeaderName::as_str);
    names.find(|name| {
        name.starts_with("x-amz-")
            && *name != "x-amz-content-sha256"
            && !signed.split(';').any(|signed| signed.eq_ignore_ascii_case(name))
    })
}

/// Buckets here have no versions: the one that every object has is called `null`.
pub(crate) fn check_version(version: Option<&str>) -> S3Result<()> {
    match version {
        None | Some("null") => Ok(()),
        Some(other) => Err(s3_error!(InvalidArgument, "there is no version {other:?}: buckets here have no versions")),
    }
}

fn check_description(headers: &HeaderMap) -> S3Result<()> {
    if headers.contains_key("x-amz-tagging") {
        return Err(s3_error!(NotImplemented, "objects here have no tags; leave x-amz-tagging out"));
    }
    let user = headers.iter().filter_map(|(name, value)| Some((name.as_str().strip_prefix("x-amz-meta-")?, value)));
    let bytes: usize = user.map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_METADATA_BYTES {
        let limit = MAX_METADATA_BYTES;
        return Err(s3_error!(MetadataTooLarge, "{bytes} bytes of user metadata exceed the limit of {limit}"));
    }
    Ok(())
}

/// The query of a request, decoded.
struct Query(Vec<(String, String)>);

impl Query {
    fn of(uri: &Uri) -> Self {
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let pairs = uri.query().unwrap_or_default().split('&');
        Self(pairs.filter_map(|pair| pair.split_once('=')).map(|(name, value)| (decode(name), decode(value))).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(uri: &str, headers: &[(&'static str, &'static str)]) -> String {
        let headers = headers.iter().map(|(name, value)| {
            (hyper::header::HeaderName::from_static(name), hyper::header::HeaderValue::from_static(value))
        });
        let uri = uri.parse().expect("a URI");
        match check_signed(&uri, &headers.collect()) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.code().as_str().to_owned(),
        }
    }

    #[test]
    fn what_is_signed_is_looked_at_in_both_places() {
        let by_header = "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;x-amz-date, Signature=0";
        let by_query = "/b/k?X-Amz-Expires=604800&X-Amz-SignedHeaders=host%3Bx-amz-meta-a";
        assert_eq!(code("/b/k", &[("authorization", by_header), ("x-amz-date", "now")]), "fine");
        assert_eq!(code("/b/k", &[("authorization", by_header), ("x-amz-acl", "private")]), "AccessDenied");
        assert_eq!(code("/b/k", &[("authorization", by_header), ("x-amz-content-sha256", "0")]), "fine");
        assert_eq!(code(by_query, &[("x-amz-meta-a", "1"), ("range", "bytes=0-1")]), "fine");
        assert_eq!(code(by_query, &[("x-amz-meta-b", "1")]), "AccessDenied");
    }

    #[test]
    fn lives_and_versions_are_limited() {
        assert_eq!(code("/b/k?X-Amz-Expires=604801", &[]), "AuthorizationQueryParametersError");
        assert_eq!(code("/b/k?versionId=null", &[]), "fine");
        assert_eq!(code("/b/k?versionId=xyz", &[]), "InvalidArgument");
    }
}
