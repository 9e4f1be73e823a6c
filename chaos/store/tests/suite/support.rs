//! A server with clients, and a signer of our own (so that the SDK is not its only judge).

use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, Mac};
use minio::s3::builders::UploadPart;
use minio::s3::creds::StaticProvider;
use minio::s3::error::{Error, S3ServerError};
use minio::s3::multimap_ext::{Multimap, MultimapExt};
use minio::s3::segmented_bytes::SegmentedBytes;
use minio::s3::types::{S3Api, ToStream};
use minio::s3::utils::{to_amz_date, to_signer_date, url_encode, utc_now};
use minio::s3::{MinioClient, MinioClientBuilder};
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use sha2::{Digest, Sha256};
use stormproof_store::{Limits, S3Server};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

pub(crate) const BUCKET: &str = "checkpoints";
pub(crate) const KEY: &str = "access";
pub(crate) const SECRET: &str = "a-secret-of-tests";
/// Far above anything a loaded machine needs; reaching it is a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A server with one bucket and clients for it.
pub(crate) struct Lab {
    pub(crate) server: S3Server,
    pub(crate) minio: MinioClient,
    pub(crate) http: reqwest::Client,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a readable header"))
    }

    /// Contents of all XML elements of that name.
    pub(crate) fn all(&self, element: &str) -> Vec<String> {
        let (open, close) = (format!("<{element}>"), format!("</{element}>"));
        let text = self.text();
        let pieces = text.split(&open).skip(1);
        pieces.map(|rest| rest.split(&close).next().unwrap_or_default().to_owned()).collect()
    }

    pub(crate) fn one(&self, element: &str) -> String {
        self.all(element).into_iter().next().unwrap_or_default()
    }

    /// Status and S3 code, such as `412 PreconditionFailed`.
    pub(crate) fn refusal(&self) -> String {
        format!("{} {}", self.status.as_u16(), self.one("Code"))
    }
}

impl Lab {
    pub(crate) async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        let server = S3Server::builder().credentials(KEY, SECRET).limits(limits).start().await.expect("a server");
        server.backend().create_bucket(BUCKET).expect("a bucket");
        let minio = minio_client(&server.endpoint(), SECRET);
        Self { server, minio, http: reqwest::Client::new() }
    }

    /// A URL that is allowed to do this.
    pub(crate) fn presigned(&self, method: &Method, path: &str, query: &[(&str, &str)]) -> String {
        presign(&self.server.endpoint(), SECRET, method, path, query)
    }

    /// Sends a hand-signed request; `path` is `bucket/key`.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        self.try_send(method, path, query, headers, body).await.expect("an answer")
    }

    pub(crate) async fn try_send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Result<Answer, reqwest::Error> {
        let url = Presigner { headers, ..Presigner::new(&self.server.endpoint()) }.url(&method, path, query);
        let mut request = self.http.request(method, url).timeout(DEADLINE).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Answer { status, headers, body: response.bytes().await? })
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], &[], "").await
    }

    pub(crate) async fn put(&self, key: &str, body: impl Into<reqwest::Body>, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::PUT, &format!("{BUCKET}/{key}"), &[], headers, body).await
    }

    /// Writes the head and the first bytes of a put over a connection of its own, and stops.
    pub(crate) async fn begin_put(&self, key: &str, headers: &str, announced: usize, first: &[u8]) -> TcpStream {
        let url = self.presigned(&Method::PUT, &format!("{BUCKET}/{key}"), &[]);
        let (host, target) = url.strip_prefix("http://").and_then(|url| url.split_once('/')).expect("a URL");
        let mut stream = TcpStream::connect(self.server.address()).await.expect("a connection");
        let head = format!("PUT /{target} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {announced}\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.expect("a request head");
        stream.write_all(first).await.expect("some of the body");
        stream
    }

    /// A put with headers through the SDK, as one request.
    pub(crate) async fn minio_put(&self, key: &str, bytes: Bytes, headers: &[(&str, &str)]) -> Result<(), Error> {
        let mut extra = Multimap::new();
        for (name, value) in headers {
            extra.add(*name, *value);
        }
        let inner = UploadPart::builder()
            .client(self.minio.clone())
            .bucket(BUCKET.parse::<minio::s3::types::BucketName>().expect("a bucket name"))
            .object(key.parse::<minio::s3::types::ObjectKey>().expect("a key"))
            .data(std::sync::Arc::new(SegmentedBytes::from(bytes)))
            .extra_headers(Some(extra))
            .build();
        minio::s3::builders::PutObject::builder().inner(inner).build().send().await.map(drop)
    }

    pub(crate) async fn minio_get(&self, key: &str) -> Result<Bytes, Error> {
        let response = self.minio.get_object(BUCKET, key)?.build().send().await?;
        response.into_bytes().await
    }

    /// Names of all entries the SDK lists, page by page.
    pub(crate) async fn minio_list(&self, prefix: &str, recursive: bool, v1: bool) -> Vec<String> {
        use futures::StreamExt as _;
        let list = self.minio.list_objects(BUCKET).expect("a bucket name").prefix(prefix.to_owned());
        let mut pages = list.recursive(recursive).use_api_v1(v1).build().to_stream().await;
        let mut names = Vec::new();
        while let Some(page) = pages.next().await {
            names.extend(page.expect("a page").contents.into_iter().map(|entry| entry.name));
        }
        names
    }
}

pub(crate) fn minio_client(endpoint: &str, secret: &str) -> MinioClient {
    MinioClientBuilder::new(endpoint.parse().expect("a URL"))
        .provider(Some(StaticProvider::new(KEY, secret, None)))
        .skip_region_lookup(true)
        .build()
        .expect("a client")
}

/// The S3 code of an SDK error, in lower case, or its text.
pub(crate) fn code(error: &Error) -> String {
    match error {
        Error::S3Server(S3ServerError::S3Error(response)) => format!("{:?}", response.code()).to_lowercase(),
        other => other.to_string(),
    }
}

/// AWS signature 4 in the query, over method, path, query and host.
pub(crate) fn presign(endpoint: &str, secret: &str, method: &Method, path: &str, query: &[(&str, &str)]) -> String {
    Presigner { keys: (KEY, secret), ..Presigner::new(endpoint) }.url(method, path, query)
}

/// Signs URLs; all can be made wrong.
pub(crate) struct Presigner<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) keys: (&'a str, &'a str),
    pub(crate) ahead_seconds: i64,
    pub(crate) expires_seconds: u32,
    /// Of these, the `x-amz-*` are signed.
    pub(crate) headers: &'a [(&'a str, &'a str)],
}

impl<'a> Presigner<'a> {
    /// By the right keys and clock, for ten minutes.
    pub(crate) fn new(endpoint: &'a str) -> Self {
        Self { endpoint, keys: (KEY, SECRET), ahead_seconds: 0, expires_seconds: 600, headers: &[] }
    }

    pub(crate) fn url(&self, method: &Method, path: &str, query: &[(&str, &str)]) -> String {
        let (endpoint, (access_key, secret)) = (self.endpoint, self.keys);
        let host = endpoint.strip_prefix("http://").expect("an HTTP endpoint");
        let offset = Duration::from_secs(self.ahead_seconds.unsigned_abs());
        let now = if self.ahead_seconds < 0 { utc_now() - offset } else { utc_now() + offset };
        let (time, date) = (to_amz_date(now), to_signer_date(now));
        let scope = format!("{date}/us-east-1/s3/aws4_request");
        let credential = format!("{access_key}/{scope}");
        let mut signed: Vec<(String, &str)> = vec![("host".to_owned(), host)];
        let headers = self.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value));
        signed.extend(headers.filter(|(name, _)| name.starts_with("x-amz-")));
        signed.sort();
        let names = signed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
        let lines: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let expires = self.expires_seconds.to_string();
        let signing = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &time),
            ("X-Amz-Expires", &expires),
            ("X-Amz-SignedHeaders", &names),
        ];
        let mut pairs: Vec<(String, String)> =
            query.iter().chain(&signing).map(|(name, value)| (url_encode(name), url_encode(value))).collect();
        pairs.sort();
        let query = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
        let path = path.split('/').map(url_encode).collect::<Vec<_>>().join("/");
        let canonical = format!("{method}\n/{path}\n{query}\n{lines}\n{names}\nUNSIGNED-PAYLOAD");
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex::encode(Sha256::digest(canonical)));
        let mut key = format!("AWS4{secret}").into_bytes();
        for part in [&*date, "us-east-1", "s3", "aws4_request"] {
            key = hmac(&key, part);
        }
        format!("{endpoint}/{path}?{query}&X-Amz-Signature={}", hex::encode(hmac(&key, &to_sign)))
    }
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Puts the deadline around a wait.
pub(crate) async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait).await.expect("it happens before the deadline")
}
