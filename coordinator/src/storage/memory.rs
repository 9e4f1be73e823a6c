//! An object store in memory, for tests and for the simulator.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use super::blob::{BlobError, BlobErrorKind, BlobInfo, BlobOp, BlobStore, PutMode};

/// What a fault does to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultOutcome {
    /// Nothing.
    Proceed,
    /// The call fails and changes nothing.
    Fail(BlobErrorKind),
    /// The call does its work, then fails: the answer was lost.
    FailAfter(BlobErrorKind),
    /// The call never answers.
    Hang,
}

type Fault = Box<dyn FnMut(BlobOp, &str) -> FaultOutcome + Send>;

#[derive(Default)]
struct Inner {
    objects: BTreeMap<String, Bytes>,
    requests: Vec<(BlobOp, String)>,
    fault: Option<Fault>,
}

/// An object store in memory. Every call is recorded; a fault can be put in front of all of them.
#[derive(Default)]
pub struct MemoryBlobStore {
    inner: Mutex<Inner>,
}

impl std::fmt::Debug for MemoryBlobStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryBlobStore").field("keys", &self.keys()).finish()
    }
}

impl MemoryBlobStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks `fault` before every call from now on.
    pub fn set_fault(&self, fault: impl FnMut(BlobOp, &str) -> FaultOutcome + Send + 'static) {
        self.lock().fault = Some(Box::new(fault));
    }

    /// Removes the fault. Calls that hang stay hanging.
    pub fn clear_fault(&self) {
        self.lock().fault = None;
    }

    /// All calls so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<(BlobOp, String)> {
        self.lock().requests.clone()
    }

    /// All keys, ordered.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    /// Puts bytes under a key, past the fault and unrecorded: for tests that damage an object.
    pub fn tamper(&self, key: &str, bytes: impl Into<Bytes>) {
        self.lock().objects.insert(key.to_owned(), bytes.into());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code that can panic runs under the lock except a test's own fault; the map stays whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call<T>(
        &self,
        op: BlobOp,
        key: &str,
        work: impl FnOnce(&mut BTreeMap<String, Bytes>) -> Result<T, BlobError>,
    ) -> Result<T, BlobError> {
        let failed = |kind| Err(BlobError::new(kind, op, key, "as the injected fault says"));
        let outcome = {
            let mut inner = self.lock();
            inner.requests.push((op, key.to_owned()));
            inner.fault.as_mut().map_or(FaultOutcome::Proceed, |fault| fault(op, key))
        };
        match outcome {
            FaultOutcome::Proceed => work(&mut self.lock().objects),
            FaultOutcome::Fail(kind) => failed(kind),
            FaultOutcome::FailAfter(kind) => {
                work(&mut self.lock().objects)?;
                failed(kind)
            }
            FaultOutcome::Hang => std::future::pending().await,
        }
    }
}

#[async_trait]
impl BlobStore for MemoryBlobStore {
    async fn get(&self, key: &str) -> Result<Bytes, BlobError> {
        self.call(BlobOp::Get, key, |objects| {
            objects.get(key).cloned().ok_or_else(|| {
                BlobError::new(BlobErrorKind::NotFound, BlobOp::Get, key, "the store in memory does not have it")
            })
        })
        .await
    }

    async fn put(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<(), BlobError> {
        self.call(BlobOp::Put, key, |objects| {
            if mode == PutMode::CreateOnly && objects.contains_key(key) {
                return Err(BlobError::new(BlobErrorKind::PreconditionFailed, BlobOp::Put, key, "create-only"));
            }
            objects.insert(key.to_owned(), bytes);
            Ok(())
        })
        .await
    }

    async fn delete(&self, key: &str) -> Result<(), BlobError> {
        self.call(BlobOp::Delete, key, |objects| {
            objects.remove(key);
            Ok(())
        })
        .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<BlobInfo>, BlobError> {
        self.call(BlobOp::List, prefix, |objects| {
            let from_prefix = objects.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
            Ok(from_prefix.map(|(key, bytes)| BlobInfo { key: key.clone(), size: bytes.len() as u64 }).collect())
        })
        .await
    }

    fn url(&self, key: &str) -> String {
        format!("memory://{key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn create_only_keeps_what_is_there_and_absent_deletes_are_fine() {
        let store = MemoryBlobStore::new();
        store.put("a/1", Bytes::from_static(b"one"), PutMode::CreateOnly).await.unwrap();
        let error = store.put("a/1", Bytes::from_static(b"two"), PutMode::CreateOnly).await.unwrap_err();
        assert_eq!(error.kind, BlobErrorKind::PreconditionFailed);
        assert_eq!(store.get("a/1").await.unwrap(), "one");
        store.put("a/1", Bytes::from_static(b"three"), PutMode::Overwrite).await.unwrap();
        store.put("b", Bytes::new(), PutMode::Overwrite).await.unwrap();
        assert_eq!(store.list("a/").await.unwrap(), [BlobInfo { key: "a/1".into(), size: 5 }]);
        store.delete("nothing").await.unwrap();
        assert_eq!(store.get("nothing").await.unwrap_err().kind, BlobErrorKind::NotFound);
    }

    #[tokio::test]
    async fn a_lost_answer_leaves_the_object() {
        let store = MemoryBlobStore::new();
        store.set_fault(|_, _| FaultOutcome::FailAfter(BlobErrorKind::Ambiguous));
        let error = store.put("k", Bytes::from_static(b"v"), PutMode::CreateOnly).await.unwrap_err();
        assert_eq!(error.kind, BlobErrorKind::Ambiguous);
        store.clear_fault();
        assert_eq!(store.get("k").await.unwrap(), "v");
        assert_eq!(store.requests().len(), 2);
    }
}
