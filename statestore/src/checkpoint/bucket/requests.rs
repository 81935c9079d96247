//! A store that was opened, and what runs its requests.

use std::future::Future;
use std::io;
use std::sync::Arc;

use object_store::ObjectStore;

use crate::calls::Calls;

/// A store that was opened.
pub(super) struct Connection {
    pub(super) store: Arc<dyn ObjectStore>,
    calls: Calls,
}

impl Connection {
    pub(super) fn new(store: Arc<dyn ObjectStore>) -> io::Result<Connection> {
        let calls = Calls::new(1)?;
        Ok(Connection { store, calls })
    }

    /// Waits for what `work` gives.
    ///
    /// # Errors
    /// It ended without: it panicked.
    pub(super) fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
        self.calls.run(work)
    }
}
