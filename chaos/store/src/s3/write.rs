//! `PutObject`.

use std::time::SystemTime;

use s3s::dto::{PutObjectInput, PutObjectOutput};
use s3s::{S3Request, S3Response, S3Result};

use super::Gateway;
use super::body::read_body;
use super::convert::{checksum_type, etag, set_checksums, size, take_checksums, user_metadata, write_condition};
use super::integrity::{check_checksums, check_content_md5};
use crate::backend::object::{ObjectHeaders, md5_of};
use crate::backend::objects::{NewObject, check_key};

pub(super) async fn put(gateway: &Gateway, req: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
    let S3Request { mut input, trailing_headers, .. } = req;
    let backend = &gateway.backend;
    check_key(&input.key)?;
    let condition = write_condition(input.if_match, input.if_none_match)?;
    // Opened before the body is read: a delete during the upload is a conflict, not an empty place.
    let window = if condition.is_some() { Some(backend.open_window(&input.bucket, &input.key)?) } else { None };
    let content = read_body(input.body, input.content_length, backend.limits()).await?;
    let md5 = md5_of(&content);
    check_content_md5(input.content_md5.as_deref(), &md5)?;
    let checksums = check_checksums(&content, take_checksums!(input), trailing_headers.as_ref())?;
    let headers = ObjectHeaders {
        content_type: input.content_type,
        cache_control: input.cache_control,
        content_disposition: input.content_disposition,
        content_encoding: input.content_encoding.and_then(without_aws_chunked),
        content_language: input.content_language,
        expires: input.expires,
        user: user_metadata(input.metadata),
    };
    let bytes = content.len();
    let new = NewObject { content, etag: hex::encode(md5), headers, checksums };
    let now = SystemTime::now();
    let object = backend.put_object(&input.bucket, &input.key, new, &condition, window.as_ref(), now)?;
    let mut output = PutObjectOutput {
        e_tag: etag(&object.etag),
        size: size(bytes),
        checksum_type: checksum_type(&object.checksums),
        ..Default::default()
    };
    set_checksums!(output, object.checksums);
    Ok(S3Response::new(output))
}

/// `aws-chunked` is how the body travelled, not how it is stored.
fn without_aws_chunked(encoding: String) -> Option<String> {
    let rest: Vec<&str> =
        encoding.split(',').map(str::trim).filter(|one| !one.is_empty() && *one != "aws-chunked").collect();
    (!rest.is_empty()).then(|| rest.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transport_encoding_is_not_kept() {
        assert_eq!(without_aws_chunked("aws-chunked".to_owned()), None);
        assert_eq!(without_aws_chunked("aws-chunked,gzip".to_owned()), Some("gzip".to_owned()));
        assert_eq!(without_aws_chunked("gzip".to_owned()), Some("gzip".to_owned()));
    }
}
