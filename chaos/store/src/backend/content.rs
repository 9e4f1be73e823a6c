//! Bytes of an object: an immutable rope, so that copies, parts, ranges and snapshots share memory.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

/// The bytes of an object or a part. Cloning costs one reference count; nothing ever changes the bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    segments: Arc<[Bytes]>,
    len: u64,
}

impl Content {
    /// Joins contents without copying their bytes.
    pub(crate) fn concat<'a>(parts: impl IntoIterator<Item = &'a Content>) -> Self {
        let segments: Vec<Bytes> = parts.into_iter().flat_map(|part| part.segments.iter().cloned()).collect();
        Self::from_segments(segments)
    }

    fn from_segments(segments: Vec<Bytes>) -> Self {
        let len = segments.iter().map(|segment| segment.len() as u64).sum();
        Self { segments: segments.into(), len }
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The bytes of `range`, sharing memory. What lies outside of the content is left out.
    pub(crate) fn slice(&self, range: Range<u64>) -> Self {
        let mut segments = Vec::new();
        let mut start = 0_u64;
        for segment in self.segments.iter() {
            let end = start + segment.len() as u64;
            let from = range.start.max(start);
            let to = range.end.min(end);
            if from < to {
                // Both differences are within the segment's length, a usize.
                segments.push(segment.slice((from - start) as usize..(to - start) as usize));
            }
            start = end;
        }
        Self::from_segments(segments)
    }

    /// One contiguous buffer; copies unless there is a single segment.
    pub(crate) fn to_bytes(&self) -> Bytes {
        match &*self.segments {
            [] => Bytes::new(),
            [only] => only.clone(),
            many => {
                let mut all = BytesMut::with_capacity(self.len as usize);
                for segment in many {
                    all.extend_from_slice(segment);
                }
                all.freeze()
            }
        }
    }

    /// The segments, in order.
    pub(crate) fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// Pieces of at most `max_bytes`, for sending.
    pub(crate) fn into_frames(self, max_bytes: usize) -> impl Iterator<Item = Bytes> + Send + Sync + 'static {
        let mut rest: Vec<Bytes> = self.segments.iter().rev().filter(|segment| !segment.is_empty()).cloned().collect();
        std::iter::from_fn(move || {
            let mut segment = rest.pop()?;
            if segment.len() > max_bytes {
                let frame = segment.split_to(max_bytes);
                rest.push(segment);
                return Some(frame);
            }
            Some(segment)
        })
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self::from_segments(vec![bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope() -> Content {
        let parts: Vec<Content> = ["hello", "", " wide ", "world"]
            .into_iter()
            .map(|s| Content::from(Bytes::from_static(s.as_bytes())))
            .collect();
        Content::concat(&parts)
    }

    #[test]
    fn a_slice_crosses_segments() {
        let rope = rope();
        assert_eq!(rope.len(), 16);
        assert_eq!(rope.slice(3..12).to_bytes(), "lo wide w");
        assert_eq!(rope.slice(0..16).to_bytes(), "hello wide world");
        assert_eq!(rope.slice(16..16).to_bytes(), "");
        assert_eq!(rope.slice(12..99).to_bytes(), "orld");
    }

    #[test]
    fn frames_are_bounded_and_keep_the_order() {
        let frames: Vec<Bytes> = rope().into_frames(4).collect();
        assert!(frames.iter().all(|frame| !frame.is_empty() && frame.len() <= 4), "{frames:?}");
        assert_eq!(frames.concat(), b"hello wide world");
    }
}
