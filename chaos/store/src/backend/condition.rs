//! Preconditions of writes, deletes and reads, as pure functions over what is stored.

use std::time::SystemTime;

use super::error::BackendError;
use super::object::Object;

/// The value of an `If-Match` or `If-None-Match` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EtagMatch {
    /// `*`.
    Any,
    /// An ETag, without quotes.
    Value(String),
}

impl EtagMatch {
    fn holds(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Value(value) => value == etag,
        }
    }
}

/// What a write or a delete demands of the object that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteCondition {
    /// `If-None-Match: *`: there must be none.
    pub(crate) absent: bool,
    /// `If-Match`: there must be one, with this ETag.
    pub(crate) matches: Option<EtagMatch>,
}

impl WriteCondition {
    /// True if the write is conditional at all.
    pub(crate) fn is_some(&self) -> bool {
        self.absent || self.matches.is_some()
    }

    /// 412 if the demand is not met; 404 if `If-Match` finds nothing, as S3 answers.
    pub(crate) fn check(&self, bucket: &str, key: &str, current: Option<&Object>) -> Result<(), BackendError> {
        if self.absent && current.is_some() {
            return Err(BackendError::PreconditionFailed { condition: "If-None-Match" });
        }
        match (&self.matches, current) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(BackendError::NoSuchKey { bucket: bucket.to_owned(), key: key.to_owned() }),
            (Some(wanted), Some(object)) if wanted.holds(&object.etag) => Ok(()),
            (Some(_), Some(_)) => Err(BackendError::PreconditionFailed { condition: "If-Match" }),
        }
    }
}

/// What a read (or the source side of a copy) demands.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadCondition {
    pub(crate) if_match: Option<EtagMatch>,
    pub(crate) if_none_match: Option<EtagMatch>,
    pub(crate) if_modified_since: Option<SystemTime>,
    pub(crate) if_unmodified_since: Option<SystemTime>,
}

/// What a [`ReadCondition`] decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadDecision {
    /// Answer with the object.
    Serve,
    /// 304: the reader has it already.
    NotModified,
    /// 412, and the header that did not hold.
    Failed(&'static str),
}

impl ReadCondition {
    /// RFC 9110's order: `If-Match` hides `If-Unmodified-Since`, `If-None-Match` hides `If-Modified-Since`.
    /// Dates have whole seconds in HTTP, so the object's time is cut to seconds first.
    pub(crate) fn decide(&self, object: &Object) -> ReadDecision {
        match (&self.if_match, self.if_unmodified_since) {
            (Some(wanted), _) if !wanted.holds(&object.etag) => return ReadDecision::Failed("If-Match"),
            (None, Some(since)) if whole_seconds(object.last_modified) > whole_seconds(since) => {
                return ReadDecision::Failed("If-Unmodified-Since");
            }
            _ => {}
        }
        match (&self.if_none_match, self.if_modified_since) {
            (Some(known), _) if known.holds(&object.etag) => ReadDecision::NotModified,
            (None, Some(since)) if whole_seconds(object.last_modified) <= whole_seconds(since) => {
                ReadDecision::NotModified
            }
            _ => ReadDecision::Serve,
        }
    }
}

fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::checksum::Checksums;
    use crate::backend::content::Content;
    use crate::backend::object::ObjectHeaders;

    fn object(etag: &str, at_ms: u64) -> Object {
        Object {
            content: Content::default(),
            etag: etag.to_owned(),
            last_modified: at(at_ms),
            headers: ObjectHeaders::default(),
            part_bytes: Vec::new(),
            checksums: Checksums::default(),
        }
    }

    fn at(ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn value(etag: &str) -> Option<EtagMatch> {
        Some(EtagMatch::Value(etag.to_owned()))
    }

    #[test]
    fn writes_answer_404_for_absent_and_412_for_different() {
        let create = WriteCondition { absent: true, matches: None };
        let update = WriteCondition { absent: false, matches: value("e1") };
        let stored = object("e2", 0);
        assert_eq!(create.check("b", "k", None), Ok(()));
        let failed = BackendError::PreconditionFailed { condition: "If-None-Match" };
        assert_eq!(create.check("b", "k", Some(&stored)), Err(failed));
        assert!(matches!(update.check("b", "k", None), Err(BackendError::NoSuchKey { .. })));
        let failed = BackendError::PreconditionFailed { condition: "If-Match" };
        assert_eq!(update.check("b", "k", Some(&stored)), Err(failed));
        assert_eq!(update.check("b", "k", Some(&object("e1", 0))), Ok(()));
    }

    #[test]
    fn reads_follow_the_order_of_the_rfc() {
        let stored = object("e", 10_500);
        let decide = |condition: ReadCondition| condition.decide(&stored);
        assert_eq!(decide(ReadCondition::default()), ReadDecision::Serve);
        assert_eq!(
            decide(ReadCondition { if_match: value("x"), ..Default::default() }),
            ReadDecision::Failed("If-Match")
        );
        // A matching If-Match makes an If-Unmodified-Since that would fail irrelevant.
        let both = ReadCondition { if_match: value("e"), if_unmodified_since: Some(at(1_000)), ..Default::default() };
        assert_eq!(decide(both), ReadDecision::Serve);
        let unmodified = ReadCondition { if_unmodified_since: Some(at(9_000)), ..Default::default() };
        assert_eq!(decide(unmodified), ReadDecision::Failed("If-Unmodified-Since"));
        assert_eq!(
            decide(ReadCondition { if_none_match: value("e"), ..Default::default() }),
            ReadDecision::NotModified
        );
        // The same second counts as not modified, although the object is 500 ms younger.
        let since = ReadCondition { if_modified_since: Some(at(10_000)), ..Default::default() };
        assert_eq!(decide(since), ReadDecision::NotModified);
        // A different If-None-Match makes If-Modified-Since irrelevant.
        let both =
            ReadCondition { if_none_match: value("x"), if_modified_since: Some(at(99_000)), ..Default::default() };
        assert_eq!(decide(both), ReadDecision::Serve);
    }
}
