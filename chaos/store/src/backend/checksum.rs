//! Checksums that clients give to objects and parts, kept so that they can be given back.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use serde::{Deserialize, Serialize};

use super::content::Content;

/// What a checksum is computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 5] = [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    /// As in `x-amz-checksum-algorithm`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// Length of the value before it is written in base64.
    pub(crate) fn digest_bytes(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }
}

/// Checksums in base64; of a multipart object `checksum-of-checksums-N`, unless it is of the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checksums(BTreeMap<Algorithm, String>);

/// How the checksum of a multipart object is made, as its creator wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChecksumKind {
    pub(crate) algorithm: Algorithm,
    /// Of all bytes, and not of the parts' checksums.
    pub(crate) full_object: bool,
}

impl Checksums {
    /// Those of `algorithms`, of these bytes, in one pass.
    pub(crate) fn compute(content: &Content, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let mut hasher = ChecksumHasher::default();
        for algorithm in algorithms {
            match algorithm {
                Algorithm::Crc32 => hasher.crc32 = Some(Crc32::new()),
                Algorithm::Crc32c => hasher.crc32c = Some(Crc32c::new()),
                Algorithm::Crc64Nvme => hasher.crc64nvme = Some(Crc64Nvme::new()),
                Algorithm::Sha1 => hasher.sha1 = Some(Sha1::new()),
                Algorithm::Sha256 => hasher.sha256 = Some(Sha256::new()),
            }
        }
        for segment in content.segments() {
            hasher.update(segment);
        }
        let done = hasher.finalize();
        [
            (Algorithm::Crc32, done.checksum_crc32),
            (Algorithm::Crc32c, done.checksum_crc32c),
            (Algorithm::Crc64Nvme, done.checksum_crc64nvme),
            (Algorithm::Sha1, done.checksum_sha1),
            (Algorithm::Sha256, done.checksum_sha256),
        ]
        .into_iter()
        .collect()
    }

    /// The checksum of the parts' checksums; none if a part has none, or if S3 has no such thing (CRC64NVME).
    pub(crate) fn composite(algorithm: Algorithm, parts: &[&Self]) -> Self {
        let known = |part: &&Self| part.get(algorithm).and_then(|value| BASE64.decode(value).ok());
        let digests: Option<Vec<Vec<u8>>> = parts.iter().map(known).collect();
        let Some(digests) = digests.filter(|_| algorithm != Algorithm::Crc64Nvme) else { return Self::default() };
        let whole = Self::compute(&Content::from(bytes::Bytes::from(digests.concat())), [algorithm]);
        whole.0.into_iter().map(|(algorithm, value)| (algorithm, Some(format!("{value}-{}", parts.len())))).collect()
    }

    pub(crate) fn get(&self, algorithm: Algorithm) -> Option<String> {
        self.0.get(&algorithm).cloned()
    }

    pub(crate) fn algorithms(&self) -> impl Iterator<Item = Algorithm> + '_ {
        self.0.keys().copied()
    }

    /// Values by algorithm.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Algorithm, &str)> {
        self.0.iter().map(|(algorithm, value)| (*algorithm, value.as_str()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True unless one is made of the parts' checksums.
    pub(crate) fn are_of_all_bytes(&self) -> bool {
        !self.0.values().any(|value| value.contains('-'))
    }
}

/// Algorithms without a value are left out.
impl FromIterator<(Algorithm, Option<String>)> for Checksums {
    fn from_iter<T: IntoIterator<Item = (Algorithm, Option<String>)>>(values: T) -> Self {
        Self(values.into_iter().filter_map(|(algorithm, value)| Some((algorithm, value?))).collect())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn of(bytes: &'static str, algorithms: &[Algorithm]) -> Checksums {
        Checksums::compute(&Content::from(Bytes::from_static(bytes.as_bytes())), algorithms.iter().copied())
    }

    #[test]
    fn values_are_what_others_compute() {
        let sums = of("123456789", &Algorithm::ALL);
        // The check values of the catalogue of CRCs, and of sha1sum and sha256sum.
        let expected = [
            (Algorithm::Crc32, "y/Q5Jg=="),
            (Algorithm::Crc32c, "4waSgw=="),
            (Algorithm::Crc64Nvme, "rosUhgp5mIg="),
            (Algorithm::Sha1, "98O8HYCOBHMq32eZZczDTKeuNEE="),
            (Algorithm::Sha256, "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
        ];
        for (algorithm, value) in expected {
            assert_eq!(sums.get(algorithm).as_deref(), Some(value), "{}", algorithm.name());
        }
    }

    #[test]
    fn a_composite_is_of_the_parts() {
        let parts = ["hello", "world"].map(|bytes| of(bytes, &[Algorithm::Crc32, Algorithm::Crc64Nvme]));
        let parts = parts.each_ref();
        let composite = Checksums::composite(Algorithm::Crc32, &parts);
        // crc32(crc32("hello") ++ crc32("world")), computed elsewhere.
        assert_eq!(composite.get(Algorithm::Crc32).as_deref(), Some("wpn7tg==-2"));
        assert!(!composite.are_of_all_bytes() && parts[0].are_of_all_bytes());
        for algorithm in [Algorithm::Crc64Nvme, Algorithm::Sha1] {
            assert!(Checksums::composite(algorithm, &parts).is_empty());
        }
    }
}
