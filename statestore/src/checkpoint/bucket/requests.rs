//! Requests of blocking callers, on a thread of their own: callers may be anywhere, also where a runtime must not be entered.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use object_store::ObjectStore;
use tokio::runtime::{Builder, Runtime};

/// A store that was opened, and what runs its requests.
pub(super) struct Connection {
    pub(super) store: Arc<dyn ObjectStore>,
    /// Taken when dropped.
    runtime: Option<Runtime>,
}

impl Connection {
    pub(super) fn new(store: Arc<dyn ObjectStore>) -> io::Result<Connection> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("cenote-objects")
            .enable_all()
            .build()?;
        Ok(Connection {
            store,
            runtime: Some(runtime),
        })
    }

    /// Waits for what `work` gives.
    ///
    /// # Errors
    /// It ended without: it panicked.
    pub(super) fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
        let (sender, receiver) = sync_channel(1);
        let runtime = self.runtime.as_ref().expect("taken when dropped only");
        runtime.spawn(async move {
            let _ = sender.send(work.await);
        });
        receiver
            .recv()
            .map_err(|_| io::Error::other("a request ended before its answer came"))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
