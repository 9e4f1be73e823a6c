//! Multipart uploads: create, add and copy parts, complete, abort.

use std::time::SystemTime;

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumType, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyPartResult, CreateMultipartUploadInput, CreateMultipartUploadOutput, Range,
    Timestamp, UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use super::Gateway;
use super::body::read_body;
use super::convert::{
    checksum_type, etag, read_condition, set_checksums, take_checksums, user_metadata, write_condition,
};
use super::copy::source;
use super::integrity::{check_checksums, check_content_md5, check_form};
use crate::backend::checksum::{Algorithm, ChecksumKind, Checksums};
use crate::backend::object::ObjectHeaders;
use crate::backend::state::Part;
use crate::backend::uploads::{Completion, WantedPart};

/// Part numbers are 1 to 10 000.
const MAX_PART_NUMBER: i32 = 10_000;

pub(super) fn create(
    gateway: &Gateway,
    req: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let input = req.input;
    let headers = ObjectHeaders {
        content_type: input.content_type,
        cache_control: input.cache_control,
        content_disposition: input.content_disposition,
        content_encoding: input.content_encoding,
        content_language: input.content_language,
        expires: input.expires,
        user: user_metadata(input.metadata),
    };
    let checksum =
        checksum_kind(input.checksum_algorithm.as_ref().map(|name| name.as_str()), input.checksum_type.as_ref())?;
    let upload = gateway.backend.create_upload(&input.bucket, &input.key, headers, checksum, SystemTime::now())?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(upload),
        checksum_algorithm: input.checksum_algorithm,
        checksum_type: input.checksum_type,
        ..Default::default()
    }))
}

/// CRC64NVME is always of the whole object, and only CRCs can be.
fn checksum_kind(algorithm: Option<&str>, kind: Option<&ChecksumType>) -> S3Result<Option<ChecksumKind>> {
    let Some(name) = algorithm else { return Ok(None) };
    let Some(algorithm) = Algorithm::of_name(name) else {
        return Err(s3_error!(InvalidRequest, "{name:?} is no checksum algorithm"));
    };
    let of_whole = kind.map_or(algorithm == Algorithm::Crc64Nvme, |kind| kind.as_str() == ChecksumType::FULL_OBJECT);
    match (algorithm, of_whole) {
        (Algorithm::Sha1 | Algorithm::Sha256, true) | (Algorithm::Crc64Nvme, false) => {
            Err(s3_error!(InvalidRequest, "{name} cannot be of type {:?}", kind.map_or("", ChecksumType::as_str)))
        }
        _ => Ok(Some(ChecksumKind { algorithm, full_object: of_whole })),
    }
}

pub(super) async fn upload_part(
    gateway: &Gateway,
    req: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let S3Request { mut input, trailing_headers, .. } = req;
    check_part_number(input.part_number)?;
    let backend = &gateway.backend;
    // An upload that is gone is refused before its bytes are read.
    backend.parts(&input.bucket, &input.key, &input.upload_id)?;
    let content = read_body(input.body, input.content_length, backend.limits()).await?;
    let checksums = check_checksums(&content, take_checksums!(input), trailing_headers.as_ref())?;
    let part = Part::new(content, checksums, SystemTime::now());
    check_content_md5(input.content_md5.as_deref(), &part.md5)?;
    let mut output = UploadPartOutput { e_tag: etag(&part.etag()), ..Default::default() };
    set_checksums!(output, part.checksums);
    backend.put_part(&input.bucket, &input.key, &input.upload_id, input.part_number, part)?;
    Ok(S3Response::new(output))
}

pub(super) fn upload_part_copy(
    gateway: &Gateway,
    req: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let input = req.input;
    check_part_number(input.part_number)?;
    let condition = read_condition(
        input.copy_source_if_match,
        input.copy_source_if_none_match,
        input.copy_source_if_modified_since.as_ref(),
        input.copy_source_if_unmodified_since.as_ref(),
    );
    let source = source(gateway, &input.copy_source, &condition)?;
    let content = match input.copy_source_range.as_deref() {
        None => source.content.clone(),
        Some(text) => source.content.slice(exact_range(text, source.content.len())?),
    };
    let part = Part::new(content, Checksums::default(), SystemTime::now());
    let result = CopyPartResult {
        e_tag: etag(&part.etag()),
        last_modified: Some(Timestamp::from(part.last_modified)),
        ..Default::default()
    };
    gateway.backend.put_part(&input.bucket, &input.key, &input.upload_id, input.part_number, part)?;
    Ok(S3Response::new(UploadPartCopyOutput { copy_part_result: Some(result), ..Default::default() }))
}

pub(super) fn complete(
    gateway: &Gateway,
    req: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let mut input = req.input;
    let condition = write_condition(input.if_match, input.if_none_match)?;
    let checksums = take_checksums!(input);
    check_form(&checksums)?;
    let listed = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
    let mut wanted: Vec<WantedPart> = Vec::with_capacity(listed.len());
    for part in listed {
        let number = part.part_number.ok_or_else(|| s3_error!(MalformedXML, "a part without a number"))?;
        wanted.push((number, part.e_tag.map(s3s::dto::ETag::into_value)));
    }
    let (bucket, key, upload) = (&input.bucket, &input.key, &input.upload_id);
    let bytes = input.mpu_object_size.map(|bytes| u64::try_from(bytes).map_err(|_| no_size(bytes))).transpose()?;
    let completion = Completion { parts: &wanted, condition: &condition, checksums: &checksums, bytes };
    let done = gateway.backend.complete_upload(bucket, key, upload, completion, SystemTime::now())?;
    let mut output = CompleteMultipartUploadOutput {
        location: Some(format!("/{bucket}/{key}")),
        bucket: Some(input.bucket),
        key: Some(input.key),
        e_tag: etag(&done.etag),
        checksum_type: checksum_type(&done.checksums),
        ..Default::default()
    };
    set_checksums!(output, done.checksums);
    Ok(S3Response::new(output))
}

fn no_size(bytes: i64) -> S3Error {
    s3_error!(InvalidRequest, "x-amz-mp-object-size is {bytes}, which is no size")
}

pub(super) fn abort(
    gateway: &Gateway,
    req: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = req.input;
    gateway.backend.abort_upload(&input.bucket, &input.key, &input.upload_id)?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

fn check_part_number(number: i32) -> S3Result<()> {
    if (1..=MAX_PART_NUMBER).contains(&number) {
        return Ok(());
    }
    Err(s3_error!(InvalidArgument, "part number {number} is not 1 to {MAX_PART_NUMBER}"))
}

/// `x-amz-copy-source-range` names first and last byte, and both must exist.
fn exact_range(text: &str, length: u64) -> S3Result<std::ops::Range<u64>> {
    match Range::parse(text) {
        Ok(Range::Int { first, last: Some(last) }) if last < length => Ok(first..last + 1),
        Ok(_) => Err(s3_error!(InvalidRange, "range {text} of an object of {length} bytes")),
        Err(_) => Err(s3_error!(InvalidArgument, "{text:?} is not of the form bytes=first-last")),
    }
}
