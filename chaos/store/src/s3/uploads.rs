//! Looking at open multipart uploads: `ListMultipartUploads` and `ListParts`.

use s3s::dto::{
    CommonPrefix, Initiator, ListMultipartUploadsInput, ListMultipartUploadsOutput, ListPartsInput, ListPartsOutput,
    MultipartUpload, Part, StorageClass, Timestamp,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Gateway;
use super::convert::{etag, owner, set_checksums, size, timestamp_ms};
use super::list::{Text, given, max_entries};
use crate::backend::uploads::OpenUpload;

/// One line of the listing: an upload, or a group of them behind a delimiter.
enum Line {
    Upload(OpenUpload),
    Group(String),
}

pub(super) fn list(
    gateway: &Gateway,
    req: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let input = req.input;
    let text = Text::new(input.encoding_type.as_ref())?;
    let max_uploads = max_entries(input.max_uploads)?;
    let mut lines = lines(gateway.backend.open_uploads(&input.bucket)?, &input);
    let truncated = lines.len() > max_uploads;
    lines.truncate(max_uploads);
    let (next_key_marker, next_upload_id_marker) = match lines.last().filter(|_| truncated) {
        Some(Line::Upload(upload)) => (Some(text.of(&upload.key)), Some(upload.upload.clone())),
        Some(Line::Group(group)) => (Some(text.of(group)), None),
        None => (None, None),
    };
    let (mut uploads, mut groups) = (Vec::new(), Vec::new());
    for line in lines {
        match line {
            Line::Upload(upload) => uploads.push(describe(upload, text)),
            Line::Group(group) => groups.push(CommonPrefix { prefix: Some(text.of(&group)) }),
        }
    }
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        prefix: input.prefix.as_deref().map(|prefix| text.of(prefix)),
        delimiter: given(input.delimiter.as_deref()).map(|delimiter| text.of(delimiter)),
        key_marker: Some(text.of(input.key_marker.as_deref().unwrap_or_default())),
        upload_id_marker: input.upload_id_marker,
        next_key_marker,
        next_upload_id_marker,
        is_truncated: Some(truncated),
        max_uploads: Some(max_uploads as i32),
        encoding_type: input.encoding_type,
        uploads: Some(uploads),
        common_prefixes: Some(groups),
        ..Default::default()
    }))
}

/// All lines behind the markers, in order. Open uploads are few, so no page is cut early here.
fn lines(uploads: Vec<OpenUpload>, input: &ListMultipartUploadsInput) -> Vec<Line> {
    let prefix = input.prefix.as_deref().unwrap_or_default();
    let marker = given(input.key_marker.as_deref());
    let upload_marker = given(input.upload_id_marker.as_deref());
    let delimiter = given(input.delimiter.as_deref());
    let mut lines: Vec<Line> = Vec::new();
    for upload in uploads {
        let Some(rest) = upload.key.strip_prefix(prefix) else { continue };
        let group = delimiter.and_then(|delimiter| {
            let at = rest.find(delimiter)?;
            Some(upload.key[..prefix.len() + at + delimiter.len()].to_owned())
        });
        let place = group.as_deref().unwrap_or(&upload.key);
        let behind = match (marker, upload_marker) {
            (None, _) => true,
            (Some(marker), None) => place > marker,
            (Some(marker), Some(id)) => place > marker || (place == marker && *upload.upload > *id),
        };
        if !behind {
            continue;
        }
        match group {
            None => lines.push(Line::Upload(upload)),
            Some(group) if matches!(lines.last(), Some(Line::Group(last)) if *last == group) => {}
            Some(group) => lines.push(Line::Group(group)),
        }
    }
    lines
}

fn describe(upload: OpenUpload, text: Text) -> MultipartUpload {
    MultipartUpload {
        key: Some(text.of(&upload.key)),
        upload_id: Some(upload.upload),
        initiated: Some(timestamp_ms(upload.initiated_ms)),
        initiator: Some(initiator()),
        owner: Some(owner()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        ..Default::default()
    }
}

pub(super) fn parts(gateway: &Gateway, req: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
    let input = req.input;
    let max_parts = max_entries(input.max_parts)?;
    let marker = input.part_number_marker.unwrap_or(0);
    if marker < 0 {
        return Err(s3_error!(InvalidArgument, "part number marker {marker}"));
    }
    let all = gateway.backend.parts(&input.bucket, &input.key, &input.upload_id)?;
    let mut rest = all.into_iter().filter(|(number, _)| *number > marker);
    let page: Vec<Part> = rest
        .by_ref()
        .take(max_parts)
        .map(|(number, part)| {
            let mut line = Part {
                part_number: Some(number),
                e_tag: etag(&part.etag()),
                size: size(part.content.len()),
                last_modified: Some(Timestamp::from(part.last_modified)),
                ..Default::default()
            };
            set_checksums!(line, part.checksums);
            line
        })
        .collect();
    let truncated = rest.next().is_some();
    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        part_number_marker: Some(marker),
        next_part_number_marker: page.last().filter(|_| truncated).and_then(|part| part.part_number),
        is_truncated: Some(truncated),
        max_parts: Some(max_parts as i32),
        parts: Some(page),
        initiator: Some(initiator()),
        owner: Some(owner()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        ..Default::default()
    }))
}

fn initiator() -> Initiator {
    let owner = owner();
    Initiator { display_name: owner.display_name, id: owner.id }
}
