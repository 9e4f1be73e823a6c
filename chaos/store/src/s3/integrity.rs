//! Checks of an uploaded body against the digests its sender gave.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use s3s::dto::Checksum;
use s3s::{S3Result, TrailingHeaders, s3_error};

use crate::backend::content::Content;

/// `Content-MD5`: 400 `InvalidDigest` if it is no MD5 at all, 400 `BadDigest` if it is another one.
pub(crate) fn check_content_md5(given: Option<&str>, md5: &[u8; 16]) -> S3Result<()> {
    let Some(given) = given else { return Ok(()) };
    match BASE64.decode(given) {
        Ok(digest) if digest == md5 => Ok(()),
        Ok(digest) if digest.len() == md5.len() => {
            Err(s3_error!(BadDigest, "Content-MD5 is {given}, the body's is {}", BASE64.encode(md5)))
        }
        _ => Err(s3_error!(InvalidDigest, "Content-MD5 {given:?} is not 16 bytes in base64")),
    }
}

/// `x-amz-checksum-*`, in the head or behind the body: 400 `BadDigest` if one differs. Gives back those that were
/// given, as S3 repeats them in its answer.
pub(crate) fn check_checksums(
    content: &Content,
    head: Checksum,
    trailer: Option<&TrailingHeaders>,
) -> S3Result<Checksum> {
    let given = with_trailer(head, trailer);
    let computed = compute(content, &given);
    for (name, given, computed) in [
        ("crc32", &given.checksum_crc32, &computed.checksum_crc32),
        ("crc32c", &given.checksum_crc32c, &computed.checksum_crc32c),
        ("crc64nvme", &given.checksum_crc64nvme, &computed.checksum_crc64nvme),
        ("sha1", &given.checksum_sha1, &computed.checksum_sha1),
        ("sha256", &given.checksum_sha256, &computed.checksum_sha256),
    ] {
        if given != computed {
            return Err(s3_error!(BadDigest, "x-amz-checksum-{name} is {given:?}, the body's is {computed:?}"));
        }
    }
    Ok(given)
}

fn with_trailer(mut given: Checksum, trailer: Option<&TrailingHeaders>) -> Checksum {
    let read = |name: &str| {
        let value = trailer?.read(|headers| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned));
        value.flatten()
    };
    for (slot, name) in [
        (&mut given.checksum_crc32, "x-amz-checksum-crc32"),
        (&mut given.checksum_crc32c, "x-amz-checksum-crc32c"),
        (&mut given.checksum_crc64nvme, "x-amz-checksum-crc64nvme"),
        (&mut given.checksum_sha1, "x-amz-checksum-sha1"),
        (&mut given.checksum_sha256, "x-amz-checksum-sha256"),
    ] {
        if slot.is_none() {
            *slot = read(name);
        }
    }
    given
}

/// Computes the algorithms for which there is something to compare, in one pass.
fn compute(content: &Content, given: &Checksum) -> Checksum {
    let mut hasher = ChecksumHasher {
        crc32: given.checksum_crc32.as_ref().map(|_| Crc32::new()),
        crc32c: given.checksum_crc32c.as_ref().map(|_| Crc32c::new()),
        sha1: given.checksum_sha1.as_ref().map(|_| Sha1::new()),
        sha256: given.checksum_sha256.as_ref().map(|_| Sha256::new()),
        crc64nvme: given.checksum_crc64nvme.as_ref().map(|_| Crc64Nvme::new()),
    };
    for segment in content.segments() {
        hasher.update(segment);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::backend::object::md5_of;

    #[test]
    fn a_digest_of_other_bytes_is_refused() {
        let content = Content::from(Bytes::from_static(b"hello"));
        let md5 = md5_of(&content);
        let code = |given| check_content_md5(given, &md5).map_err(|error| error.code().as_str().to_owned());
        assert_eq!(code(None), Ok(()));
        assert_eq!(code(Some("XUFAKrxLKna5cZ2REBfFkg==")), Ok(()));
        assert_eq!(code(Some("AAAAAAAAAAAAAAAAAAAAAA==")), Err("BadDigest".to_owned()));
        assert_eq!(code(Some("5d41402abc4b2a76b9719d911017c592")), Err("InvalidDigest".to_owned()));

        let crc = |value: &str| Checksum { checksum_crc32: Some(value.to_owned()), ..Default::default() };
        assert_eq!(check_checksums(&content, crc("NhCmhg=="), None).expect("its CRC"), crc("NhCmhg=="));
        assert_eq!(check_checksums(&content, crc("AAAAAA=="), None).expect_err("other").code().as_str(), "BadDigest");
    }
}
