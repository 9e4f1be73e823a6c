//! `GetObject` and `HeadObject`: conditions, ranges and single parts of a multipart object.

use std::ops::Range as ByteRange;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use hyper::StatusCode;
use hyper::header::{ETAG, HeaderMap, HeaderValue};
use s3s::dto::{
    ChecksumMode, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, Metadata, Range, StreamingBlob,
    Timestamp,
};
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, StdError, s3_error};

use super::Gateway;
use super::convert::{checksum_type, etag, read_condition, set_checksums, size};
use super::errors::custom;
use crate::backend::checksum::Checksums;
use crate::backend::condition::{ReadCondition, ReadDecision};
use crate::backend::content::Content;
use crate::backend::object::{Object, ObjectHeaders};

/// Largest piece of a body handed to the connection at once; also the grain of `response_bytes` of a cut answer.
const MAX_FRAME_BYTES: usize = 64 << 10;

/// The bytes to answer with, and what to say about them.
struct Selected {
    bytes: ByteRange<u64>,
    /// Present if less than the object was asked for; makes the answer a 206.
    content_range: Option<String>,
    parts_count: Option<i32>,
}

pub(super) fn get(gateway: &Gateway, req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
    let input = req.input;
    let object = gateway.backend.object(&input.bucket, &input.key)?;
    let condition = read_condition(
        input.if_match,
        input.if_none_match,
        input.if_modified_since.as_ref(),
        input.if_unmodified_since.as_ref(),
    );
    check(&condition, &object)?;
    let selected = select(&object, input.range, input.part_number)?;
    // The body is cut from the version found above: later writes do not reach it.
    let content = object.content.slice(selected.bytes.clone());
    let checksums = asked_checksums(input.checksum_mode.as_ref(), &selected, &object);
    let headers = object.headers.clone();
    let mut output = GetObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: size(content.len()),
        body: Some(blob(content)),
        content_range: selected.content_range,
        parts_count: selected.parts_count,
        e_tag: etag(&object.etag),
        last_modified: Some(Timestamp::from(object.last_modified)),
        metadata: metadata(&headers),
        content_type: headers.content_type,
        cache_control: headers.cache_control,
        content_disposition: headers.content_disposition,
        content_encoding: headers.content_encoding,
        content_language: headers.content_language,
        expires: headers.expires,
        ..Default::default()
    };
    if let Some(checksums) = checksums {
        output.checksum_type = checksum_type(checksums);
        set_checksums!(output, checksums);
    }
    Ok(S3Response::new(output))
}

pub(super) fn head(gateway: &Gateway, req: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
    let input = req.input;
    let object = gateway.backend.object(&input.bucket, &input.key)?;
    let condition = read_condition(
        input.if_match,
        input.if_none_match,
        input.if_modified_since.as_ref(),
        input.if_unmodified_since.as_ref(),
    );
    check(&condition, &object)?;
    let selected = select(&object, input.range, input.part_number)?;
    let checksums = asked_checksums(input.checksum_mode.as_ref(), &selected, &object);
    let headers = object.headers.clone();
    let mut output = HeadObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: size(selected.bytes.end - selected.bytes.start),
        content_range: selected.content_range,
        parts_count: selected.parts_count,
        e_tag: etag(&object.etag),
        last_modified: Some(Timestamp::from(object.last_modified)),
        metadata: metadata(&headers),
        content_type: headers.content_type,
        cache_control: headers.cache_control,
        content_disposition: headers.content_disposition,
        content_encoding: headers.content_encoding,
        content_language: headers.content_language,
        expires: headers.expires,
        ..Default::default()
    };
    if let Some(checksums) = checksums {
        output.checksum_type = checksum_type(checksums);
        set_checksums!(output, checksums);
    }
    Ok(S3Response::new(output))
}

/// The object's checksums, if they were asked for and all of it is read.
fn asked_checksums<'a>(mode: Option<&ChecksumMode>, selected: &Selected, object: &'a Object) -> Option<&'a Checksums> {
    let asked = mode.is_some_and(|mode| mode.as_str().eq_ignore_ascii_case(ChecksumMode::ENABLED));
    (asked && selected.bytes == (0..object.content.len())).then_some(&object.checksums)
}

fn metadata(headers: &ObjectHeaders) -> Option<Metadata> {
    let user = &headers.user;
    (!user.is_empty()).then(|| user.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// 304 and 412. A 304 carries the ETag, so that caches know what they may keep.
fn check(condition: &ReadCondition, object: &Arc<Object>) -> S3Result<()> {
    match condition.decide(object) {
        ReadDecision::Serve => Ok(()),
        ReadDecision::NotModified => {
            let mut error = S3Error::new(S3ErrorCode::NotModified);
            if let Ok(value) = HeaderValue::try_from(format!("\"{}\"", object.etag)) {
                error.set_headers(HeaderMap::from_iter([(ETAG, value)]));
            }
            Err(error)
        }
        ReadDecision::Failed(header) => Err(s3_error!(PreconditionFailed, "the precondition {header} did not hold")),
    }
}

fn select(object: &Object, range: Option<Range>, part_number: Option<i32>) -> S3Result<Selected> {
    let length = object.content.len();
    match (range, part_number) {
        (Some(_), Some(_)) => Err(s3_error!(InvalidRequest, "a range and a part number exclude each other")),
        (None, None) => Ok(Selected { bytes: 0..length, content_range: None, parts_count: None }),
        (Some(range), None) => {
            let bytes = satisfiable(range, length)?;
            let content_range = Some(content_range(&bytes, length));
            Ok(Selected { bytes, content_range, parts_count: None })
        }
        (None, Some(number)) => part(object, number),
    }
}

/// 416 if no byte of the range exists; every range of an empty object is such a one.
fn satisfiable(range: Range, length: u64) -> S3Result<ByteRange<u64>> {
    let bytes = range.check(length).ok().filter(|bytes| bytes.start < bytes.end);
    bytes.ok_or_else(|| {
        let mut error =
            s3_error!(InvalidRange, "no byte of {} exists, the object has {length}", range.to_header_string());
        if let Ok(value) = HeaderValue::try_from(format!("bytes */{length}")) {
            let content_type = HeaderValue::from_static("application/xml");
            let headers = [(hyper::header::CONTENT_RANGE, value), (hyper::header::CONTENT_TYPE, content_type)];
            error.set_headers(HeaderMap::from_iter(headers));
        }
        error
    })
}

/// A single put has one part, part 1.
fn part(object: &Object, number: i32) -> S3Result<Selected> {
    let whole = [object.content.len()];
    let sizes: &[u64] = if object.part_bytes.is_empty() { &whole } else { &object.part_bytes };
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1)).filter(|i| *i < sizes.len());
    let index = index.ok_or_else(|| {
        let message = format!("part {number} of {} was asked for", sizes.len());
        custom("InvalidPartNumber", StatusCode::RANGE_NOT_SATISFIABLE, message)
    })?;
    let start: u64 = sizes[..index].iter().sum();
    let bytes = start..start + sizes[index];
    let content_range = (!bytes.is_empty()).then(|| content_range(&bytes, object.content.len()));
    let parts_count = (!object.part_bytes.is_empty()).then_some(sizes.len() as i32);
    Ok(Selected { bytes, content_range, parts_count })
}

fn content_range(bytes: &ByteRange<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", bytes.start, bytes.end - 1)
}

fn blob(content: Content) -> StreamingBlob {
    let left = content.len() as usize;
    StreamingBlob::new(Frames { frames: Box::new(content.into_frames(MAX_FRAME_BYTES)), left })
}

/// A body of known length, so that the answer has a Content-Length and its end is noticed without another poll.
struct Frames {
    frames: Box<dyn Iterator<Item = Bytes> + Send + Sync>,
    left: usize,
}

impl stream::Stream for Frames {
    type Item = Result<Bytes, StdError>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let frame = self.frames.next();
        self.left -= frame.as_ref().map_or(0, Bytes::len);
        std::task::Poll::Ready(frame.map(Ok))
    }
}

impl ByteStream for Frames {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::new_exact(self.left)
    }
}
