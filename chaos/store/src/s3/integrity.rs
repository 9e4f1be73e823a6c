//! Checks of an uploaded body against the digests its sender gave.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use s3s::{S3Result, TrailingHeaders, s3_error};

use crate::backend::checksum::{Algorithm, Checksums};
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

/// `x-amz-checksum-*`, in the head or behind the body: 400 `BadDigest` if one differs. Gives back all that were given.
pub(crate) fn check_checksums(
    content: &Content,
    head: Checksums,
    trailer: Option<&TrailingHeaders>,
) -> S3Result<Checksums> {
    let given: Checksums = Algorithm::ALL
        .into_iter()
        .map(|algorithm| (algorithm, head.get(algorithm).or_else(|| in_trailer(trailer?, algorithm))))
        .collect();
    let computed = Checksums::compute(content, given.algorithms());
    for algorithm in given.algorithms() {
        let (given, computed) = (given.get(algorithm), computed.get(algorithm));
        if given != computed {
            let name = algorithm.name();
            return Err(s3_error!(BadDigest, "the {name} is said to be {given:?}, the body's is {computed:?}"));
        }
    }
    Ok(given)
}

fn in_trailer(trailer: &TrailingHeaders, algorithm: Algorithm) -> Option<String> {
    let name = format!("x-amz-checksum-{}", algorithm.name().to_ascii_lowercase());
    trailer.read(|headers| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)).flatten()
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

        let crc = |value: &str| Checksums::from_iter([(Algorithm::Crc32, Some(value.to_owned()))]);
        assert_eq!(check_checksums(&content, crc("NhCmhg=="), None).expect("its CRC"), crc("NhCmhg=="));
        assert_eq!(check_checksums(&content, crc("AAAAAA=="), None).expect_err("other").code().as_str(), "BadDigest");
    }
}
