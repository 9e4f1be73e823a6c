//! Ends the process from anywhere inside it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::error::{CoordinatorError, chain};
use crate::leadership::HaError;

/// Where a part of the coordinator reports that the process cannot go on. The first report counts.
#[derive(Clone, Default)]
pub(crate) struct Fatal {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    error: Mutex<Option<CoordinatorError>>,
    raised: Notify,
}

impl Fatal {
    /// Ends the process with `error`, unless it ends already.
    pub(crate) fn raise(&self, error: CoordinatorError) {
        tracing::error!(error = %chain(&error), "the coordinator cannot go on");
        let mut slot = self.inner.error.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(error);
        self.inner.raised.notify_one();
    }

    /// Raises if `error` says that another session leads. True if it did.
    pub(crate) fn raise_if_fenced(&self, error: &HaError) -> bool {
        let fenced = matches!(error, HaError::Fenced { .. });
        if fenced {
            self.raise(CoordinatorError::Fenced(error.to_string()));
        }
        fenced
    }

    /// Waits for the first report. One waiter only.
    pub(crate) async fn wait(&self) -> CoordinatorError {
        loop {
            if let Some(error) = self.inner.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return error;
            }
            self.inner.raised.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_report_counts() {
        let fatal = Fatal::default();
        assert!(!fatal.raise_if_fenced(&HaError::ReadOnly { op: "writing".into() }));
        assert!(fatal.raise_if_fenced(&HaError::Fenced { op: "writing".into(), ours: 1, current: Some(2) }));
        fatal.raise(CoordinatorError::Fatal("second".into()));
        let error = fatal.wait().await;
        assert_eq!(
            error.to_string(),
            "leadership was lost: writing was refused: leader session 1 is over, session 2 leads"
        );
    }
}
