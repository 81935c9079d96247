//! Whether a view works, shared by its operators on all workers and its readers.

use cenote_statestore::{Error, Result};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state of one view.
#[derive(Debug, Default)]
pub struct ViewStatus {
    failure: OnceLock<Error>,
    live: AtomicBool,
    moved: tokio::sync::Notify,
}

impl ViewStatus {
    /// The status of a view that could not even be started.
    pub fn failed(error: Error) -> ViewStatus {
        let status = ViewStatus::default();
        status.fail(error);
        status
    }

    /// Why the view stopped, if it did. It answers no more; dropping and creating it again starts anew.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    pub(crate) fn fail(&self, error: Error) {
        // The first error is the cause; later ones are its consequences.
        let _ = self.failure.set(error);
        self.moved.notify_waiters();
    }

    /// Whether the view has caught up with its inputs since it was created, and can be read.
    pub fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// Waits until the view is live.
    ///
    /// # Errors
    /// Why it failed, if it did.
    pub async fn wait_live(&self) -> Result<()> {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if let Some(error) = self.failure() {
                return Err(error.clone());
            }
            if self.is_live() {
                return Ok(());
            }
            moved.await;
        }
    }

    /// Waits until the view fails, which may be never.
    pub async fn wait_failure(&self) -> Error {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if let Some(error) = self.failure() {
                return error.clone();
            }
            moved.await;
        }
    }

    pub(crate) fn set_live(&self) {
        self.live.store(true, Ordering::Release);
        self.moved.notify_waiters();
    }
}
