//! `ListObjects` (both versions).

use std::sync::atomic::Ordering;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{
    CommonPrefix, EncodingType, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output, Object,
    ObjectStorageClass,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Gateway;
use super::convert::{etag, owner, size, timestamp_ms};
use crate::backend::error::BackendError;
use crate::backend::list::{ListPage, ListQuery, MAX_PAGE_ENTRIES};
use crate::backend::object::ObjectInfo;
use crate::edge::StaleList;

pub(super) fn v1(gateway: &Gateway, req: S3Request<ListObjectsInput>) -> S3Result<S3Response<ListObjectsOutput>> {
    let S3Request { input, extensions, .. } = req;
    let text = Text::new(input.encoding_type.as_ref())?;
    let max_entries = max_entries(input.max_keys)?;
    let query = ListQuery {
        prefix: input.prefix.as_deref().unwrap_or_default(),
        delimiter: given(input.delimiter.as_deref()),
        after: given(input.marker.as_deref()),
        max_entries,
    };
    let page = page(gateway, &input.bucket, query, extensions.get())?;
    Ok(S3Response::new(ListObjectsOutput {
        is_truncated: Some(page.next.is_some()),
        next_marker: page.next.as_deref().map(|next| text.of(next)),
        contents: Some(contents(&page, text, true)),
        common_prefixes: Some(common_prefixes(&page, text)),
        name: Some(input.bucket),
        prefix: Some(text.of(input.prefix.as_deref().unwrap_or_default())),
        marker: Some(text.of(input.marker.as_deref().unwrap_or_default())),
        delimiter: given(input.delimiter.as_deref()).map(|delimiter| text.of(delimiter)),
        max_keys: Some(max_entries as i32),
        encoding_type: input.encoding_type,
        ..Default::default()
    }))
}

pub(super) fn v2(gateway: &Gateway, req: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
    let S3Request { input, extensions, .. } = req;
    let text = Text::new(input.encoding_type.as_ref())?;
    let max_entries = max_entries(input.max_keys)?;
    let continued = given(input.continuation_token.as_deref()).map(read_token).transpose()?;
    let query = ListQuery {
        prefix: input.prefix.as_deref().unwrap_or_default(),
        delimiter: given(input.delimiter.as_deref()),
        after: continued.as_deref().or(given(input.start_after.as_deref())),
        max_entries,
    };
    let page = page(gateway, &input.bucket, query, extensions.get())?;
    Ok(S3Response::new(ListObjectsV2Output {
        is_truncated: Some(page.next.is_some()),
        next_continuation_token: page.next.as_deref().map(token),
        key_count: Some((page.objects.len() + page.common_prefixes.len()) as i32),
        contents: Some(contents(&page, text, input.fetch_owner.unwrap_or(false))),
        common_prefixes: Some(common_prefixes(&page, text)),
        name: Some(input.bucket),
        prefix: Some(text.of(input.prefix.as_deref().unwrap_or_default())),
        delimiter: given(input.delimiter.as_deref()).map(|delimiter| text.of(delimiter)),
        start_after: given(input.start_after.as_deref()).map(|start| text.of(start)),
        continuation_token: input.continuation_token,
        max_keys: Some(max_entries as i32),
        encoding_type: input.encoding_type,
        ..Default::default()
    }))
}

/// The present, or the past if the edge decided so.
fn page(
    gateway: &Gateway,
    bucket: &str,
    query: ListQuery<'_>,
    stale: Option<&StaleList>,
) -> Result<ListPage, BackendError> {
    let Some(stale) = stale else { return gateway.backend.list(bucket, query) };
    match gateway.backend.list_past(bucket, query, stale.changes_ago)? {
        Some(past) => {
            stale.differs.store(true, Ordering::Relaxed);
            Ok(past)
        }
        None => gateway.backend.list(bucket, query),
    }
}

/// `delimiter=` with nothing means no delimiter; SDKs send it. The same holds for markers and tokens.
pub(super) fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// At most 1000, which is also the default.
pub(super) fn max_entries(asked: Option<i32>) -> S3Result<usize> {
    let Some(asked) = asked else { return Ok(MAX_PAGE_ENTRIES) };
    let asked = usize::try_from(asked).map_err(|_| s3_error!(InvalidArgument, "a page of {asked} entries"))?;
    Ok(asked.min(MAX_PAGE_ENTRIES))
}

/// Tokens are opaque to clients: the last entry of the page, in hex.
fn token(last: &str) -> String {
    hex::encode(last)
}

fn read_token(token: &str) -> S3Result<String> {
    let bytes = hex::decode(token).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| s3_error!(InvalidArgument, "the continuation token {token:?} is not one of this server"))
}

fn contents(page: &ListPage, text: Text, with_owner: bool) -> Vec<Object> {
    let one = |info: &ObjectInfo| Object {
        key: Some(text.of(&info.key)),
        size: size(info.size_bytes),
        e_tag: etag(&info.etag),
        last_modified: Some(timestamp_ms(info.last_modified_ms)),
        storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
        owner: with_owner.then(owner),
        ..Default::default()
    };
    page.objects.iter().map(one).collect()
}

fn common_prefixes(page: &ListPage, text: Text) -> Vec<CommonPrefix> {
    page.common_prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(text.of(prefix)) }).collect()
}

/// What stays as it is under `encoding-type=url`. A space becomes `%20`, which clients that expect `+` read too.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'*');

/// How keys are written into the answer.
#[derive(Clone, Copy)]
pub(super) struct Text {
    url_encoded: bool,
}

impl Text {
    pub(super) fn new(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None | Some("") => Ok(Self { url_encoded: false }),
            Some(EncodingType::URL) => Ok(Self { url_encoded: true }),
            Some(other) => Err(s3_error!(InvalidArgument, "encoding type {other:?}; only url exists")),
        }
    }

    pub(super) fn of(self, text: &str) -> String {
        if self.url_encoded { utf8_percent_encode(text, KEPT).to_string() } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_encodings_survive_the_round_trip() {
        let key = "a b/é+%\u{1}.txt";
        assert_eq!(read_token(&token(key)).expect("own token"), key);
        assert!(read_token("zz").is_err());
        let text = Text::new(Some(&EncodingType::from_static(EncodingType::URL))).expect("url");
        assert_eq!(text.of(key), "a%20b/%C3%A9%2B%25%01.txt");
        assert_eq!(max_entries(Some(5_000)).expect("capped"), 1_000);
        assert!(max_entries(Some(-1)).is_err());
    }
}
