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

/// `x-amz-checksum-*`, in the head or behind the body: 400 `InvalidRequest` if one is none at all, 400 `BadDigest` if it
/// is another one. Gives back all that were given.
pub(crate) fn check_checksums(
    content: &Content,
    head: Checksums,
    trailer: Option<&TrailingHeaders>,
) -> S3Result<Checksums> {
    let given: Checksums = Algorithm::ALL
        .into_iter()
        .map(|algorithm| (algorithm, head.get(algorithm).or_else(|| in_trailer(trailer?, algorithm))))
        .collect();
    check_form(&given)?;
    let computed = Checksums::compute(content, given.algorithms());
    for ((algorithm, given), (_, computed)) in given.iter().zip(computed.iter()) {
        if given != computed {
            let name = algorithm.name();
            return Err(s3_error!(BadDigest, "the {name} is said to be {given}, the body's is {computed}"));
        }
    }
    Ok(given)
}

/// Refuses what is no checksum: 400 `InvalidRequest`. One of parts' checksums has their number behind it.
pub(crate) fn check_form(given: &Checksums) -> S3Result<()> {
    for (algorithm, value) in given.iter() {
        let digest = value.split_once('-').map_or(value, |(digest, _)| digest);
        if BASE64.decode(digest).ok().map(|digest| digest.len()) != Some(algorithm.digest_bytes()) {
            let (name, bytes) = (algorithm.name(), algorithm.digest_bytes());
            return Err(s3_error!(InvalidRequest, "{value:?} is no {name}, which is {bytes} bytes in base64"));
        }
    }
    Ok(())
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
        let refused = |value| {
            let error = check_checksums(&content, crc(value), None).expect_err("another");
            (error.code().as_str().to_owned(), error.message().unwrap_or_default().to_owned())
        };
        let (code, message) = refused("AAAAAA==");
        assert_eq!((&*code, &*message), ("BadDigest", "the CRC32 is said to be AAAAAA==, the body's is NhCmhg=="));
        for malformed in ["zz", "", "NhCmhg", "XUFAKrxLKna5cZ2REBfFkg=="] {
            let (code, message) = refused(malformed);
            let expected = format!("{malformed:?} is no CRC32, which is 4 bytes in base64");
            assert_eq!((&*code, message), ("InvalidRequest", expected));
        }
    }
}
