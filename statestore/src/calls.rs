//! Asynchronous work for callers that block, on threads of its own: callers may be anywhere, also where a runtime must not be
//! entered.

use std::future::Future;
use std::io;
use std::sync::mpsc::sync_channel;

use tokio::runtime::{Builder, Runtime};

/// Threads that wait for local disks. More of them read no faster, and each keeps memory.
const DISK_THREADS: usize = 8;

/// Threads that run what callers wait for. Dropping it ends what is under way.
pub(crate) struct Calls {
    /// Taken when dropped.
    runtime: Option<Runtime>,
}

impl Calls {
    /// # Arguments
    /// - `threads`: how many run work.
    ///
    /// # Errors
    /// What the system says: it has no more threads.
    pub(crate) fn new(threads: usize) -> io::Result<Calls> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(DISK_THREADS)
            .thread_name("cenote-objects")
            .enable_all()
            .build()?;
        Ok(Calls { runtime: Some(runtime) })
    }

    /// Waits for what `work` gives.
    ///
    /// # Errors
    /// It ended without: it panicked.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
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

impl Drop for Calls {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
