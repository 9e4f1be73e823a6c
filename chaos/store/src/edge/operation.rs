//! Which S3 operation a request is, told from its method, path and query alone.

use std::fmt;
use std::str::FromStr;

use hyper::header::HeaderMap;
use hyper::http::Method;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

macro_rules! operations {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// An S3 operation, by its name in the S3 API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Operation {
            $($(#[doc = $doc])* $name,)*
        }

        impl Operation {
            /// All of them, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name in the S3 API, such as `GetObject`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

operations! {
    /// `GET /`
    ListBuckets,
    /// `PUT /bucket`
    CreateBucket,
    /// `HEAD /bucket`
    HeadBucket,
    /// `DELETE /bucket`
    DeleteBucket,
    /// `GET /bucket?location`
    GetBucketLocation,
    /// `GET /bucket?versioning`
    GetBucketVersioning,
    /// `GET /bucket`
    ListObjects,
    /// `GET /bucket?list-type=2`
    ListObjectsV2,
    /// `POST /bucket?delete`
    DeleteObjects,
    /// `PUT /bucket/key`
    PutObject,
    /// `GET /bucket/key`
    GetObject,
    /// `HEAD /bucket/key`
    HeadObject,
    /// `DELETE /bucket/key`
    DeleteObject,
    /// `PUT /bucket/key` with `x-amz-copy-source`
    CopyObject,
    /// `POST /bucket/key?uploads`
    CreateMultipartUpload,
    /// `PUT /bucket/key?partNumber&uploadId`
    UploadPart,
    /// `PUT /bucket/key?partNumber&uploadId` with `x-amz-copy-source`
    UploadPartCopy,
    /// `POST /bucket/key?uploadId`
    CompleteMultipartUpload,
    /// `DELETE /bucket/key?uploadId`
    AbortMultipartUpload,
    /// `GET /bucket/key?uploadId`
    ListParts,
    /// `GET /bucket?uploads`
    ListMultipartUploads,
    /// Anything else; the server answers it with 501 `NotImplemented` or 400.
    Other,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Operation {
    /// False if its success is answered without a body.
    pub(crate) fn answers_with_body(self) -> bool {
        !matches!(
            self,
            Self::CreateBucket
                | Self::HeadBucket
                | Self::DeleteBucket
                | Self::PutObject
                | Self::HeadObject
                | Self::DeleteObject
                | Self::UploadPart
                | Self::AbortMultipartUpload
        )
    }
}

/// A name that is no operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not an S3 operation known here; names are case-exact, such as GetObject")]
pub struct UnknownOperation {
    /// What was given.
    pub name: String,
}

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().copied().find(|operation| operation.name() == name);
        found.ok_or_else(|| UnknownOperation { name: name.to_owned() })
    }
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) operation: Operation,
    pub(crate) bucket: Option<String>,
    pub(crate) key: Option<String>,
}

/// Queries that turn a request into an operation this server does not have.
const SUBRESOURCES: &[&str] = &[
    "accelerate",
    "acl",
    "analytics",
    "attributes",
    "cors",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "logging",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "session",
    "tagging",
    "torrent",
    "versioning",
    "versions",
    "website",
];

impl Target {
    /// Never fails: what cannot be told is [`Operation::Other`].
    pub(crate) fn of(method: &Method, path: &str, query: Option<&str>, headers: &HeaderMap) -> Self {
        let path = percent_decode_str(path).decode_utf8_lossy();
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = match path.split_once('/') {
            None => (path, ""),
            Some(both) => both,
        };
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let operation = operation_of(method, !bucket.is_empty(), !key.is_empty(), query.unwrap_or_default(), headers);
        Self { operation, bucket: some(bucket), key: some(key) }
    }
}

fn operation_of(method: &Method, has_bucket: bool, has_key: bool, query: &str, headers: &HeaderMap) -> Operation {
    let pairs = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let has = |name: &str| pairs().any(|(key, _)| key == name);
    if method == Method::GET && has_bucket && !has_key && has("versioning") {
        return Operation::GetBucketVersioning;
    }
    if SUBRESOURCES.iter().any(|name| has(name)) {
        return Operation::Other;
    }
    let copies = headers.contains_key("x-amz-copy-source");
    match (method.as_str(), has_bucket, has_key) {
        ("GET", false, _) => Operation::ListBuckets,
        ("GET", true, false) if has("location") => Operation::GetBucketLocation,
        ("GET", true, false) if has("uploads") => Operation::ListMultipartUploads,
        ("GET", true, false) if pairs().any(|pair| pair == ("list-type", "2")) => Operation::ListObjectsV2,
        ("GET", true, false) => Operation::ListObjects,
        ("GET", true, true) if has("uploadId") => Operation::ListParts,
        ("GET", true, true) => Operation::GetObject,
        ("HEAD", true, false) => Operation::HeadBucket,
        ("HEAD", true, true) => Operation::HeadObject,
        ("PUT", true, false) => Operation::CreateBucket,
        ("PUT", true, true) if has("partNumber") && has("uploadId") && copies => Operation::UploadPartCopy,
        ("PUT", true, true) if has("partNumber") && has("uploadId") => Operation::UploadPart,
        ("PUT", true, true) if copies => Operation::CopyObject,
        ("PUT", true, true) => Operation::PutObject,
        ("POST", true, false) if has("delete") => Operation::DeleteObjects,
        ("POST", true, true) if has("uploads") => Operation::CreateMultipartUpload,
        ("POST", true, true) if has("uploadId") => Operation::CompleteMultipartUpload,
        ("DELETE", true, false) => Operation::DeleteBucket,
        ("DELETE", true, true) if has("uploadId") => Operation::AbortMultipartUpload,
        ("DELETE", true, true) => Operation::DeleteObject,
        _ => Operation::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(method: &str, uri: &str, copies: bool) -> String {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
        let mut headers = HeaderMap::new();
        if copies {
            headers.insert("x-amz-copy-source", "b/k".parse().expect("a header value"));
        }
        let target = Target::of(&method.parse().expect("a method"), path, query, &headers);
        let opt = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
        format!("{} {} {}", target.operation, opt(target.bucket), opt(target.key))
    }

    #[test]
    fn operations_are_told_apart() {
        let cases = [
            ("GET", "/", "ListBuckets - -"),
            ("GET", "/b", "ListObjects b -"),
            ("GET", "/b/?list-type=2&prefix=x", "ListObjectsV2 b -"),
            ("GET", "/b?uploads&prefix=", "ListMultipartUploads b -"),
            ("GET", "/b?location=", "GetBucketLocation b -"),
            ("GET", "/b?versioning", "GetBucketVersioning b -"),
            ("PUT", "/b?versioning", "Other b -"),
            ("GET", "/b/a%20b//c%2Fd", "GetObject b a b//c/d"),
            ("GET", "/b/k?uploadId=7", "ListParts b k"),
            ("GET", "/b/k?tagging", "Other b k"),
            ("HEAD", "/b/k", "HeadObject b k"),
            ("PUT", "/b/", "CreateBucket b -"),
            ("PUT", "/b/k?partNumber=1&uploadId=7", "UploadPart b k"),
            ("POST", "/b/k?uploads", "CreateMultipartUpload b k"),
            ("POST", "/b/k?uploadId=7", "CompleteMultipartUpload b k"),
            ("POST", "/b?delete", "DeleteObjects b -"),
            ("DELETE", "/b/k?uploadId=7", "AbortMultipartUpload b k"),
            ("DELETE", "/b/k", "DeleteObject b k"),
            ("PATCH", "/b/k", "Other b k"),
        ];
        for (method, uri, expected) in cases {
            assert_eq!(name(method, uri, false), expected, "{method} {uri}");
        }
        assert_eq!(name("PUT", "/b/k", true), "CopyObject b k");
        assert_eq!(name("PUT", "/b/k?partNumber=1&uploadId=7", true), "UploadPartCopy b k");
    }

    #[test]
    fn names_are_read_back() {
        for operation in Operation::ALL {
            assert_eq!(operation.name().parse(), Ok(*operation));
        }
        assert!("getObject".parse::<Operation>().is_err());
    }
}
