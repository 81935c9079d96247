//! Keeps the process within its memory: what would add rows waits while it is over its limit, and is refused in the end.
//!
//! # Rules kept here
//! What is kept for its convenience alone goes when memory is short, before anything is refused.
//!
//! # Not here
//! What the process uses ([`ProcessMemory`]); state that leaves memory ([`cenote_statestore::spill`]).

use cenote_statestore::{Error, ErrorKind, LOOKS_APART, ProcessMemory, Result};
use std::time::{Duration, Instant};

/// How long a writer waits for memory before it is refused.
const WAIT: Duration = Duration::from_secs(10);

/// Watches the memory of the process for those who take more.
#[derive(Debug)]
pub(crate) struct MemoryGuard {
    process: ProcessMemory,
}

impl MemoryGuard {
    pub(crate) fn new(limit: Option<usize>) -> MemoryGuard {
        MemoryGuard {
            process: ProcessMemory::new(limit),
        }
    }

    /// Whether the process comes near its limit.
    pub(crate) fn is_short(&self) -> bool {
        self.process.is_short()
    }

    /// Waits until the process is within its limit again, but not for long. The system tells nobody of that, so it is looked up
    /// now and then, while rows wait.
    ///
    /// # Errors
    /// As [`MemoryGuard::check`].
    pub(crate) fn wait(&self) -> Result<()> {
        let until = Instant::now() + WAIT;
        while self.process.is_over() && Instant::now() < until {
            std::thread::sleep(LOOKS_APART);
        }
        self.check()
    }

    /// As [`MemoryGuard::wait`], in a task.
    pub(crate) async fn wait_in_task(&self) -> Result<()> {
        let until = Instant::now() + WAIT;
        while self.process.is_over() && Instant::now() < until {
            tokio::time::sleep(LOOKS_APART).await;
        }
        self.check()
    }

    /// # Errors
    /// `Unavailable` 53200: the process is over its limit.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.process.is_over() {
            return Ok(());
        }
        let message = "cannot take more rows: the process is over its memory limit";
        Err(Error::new(ErrorKind::Unavailable, "ENGINE-0007", message)
            .sqlstate("53200")
            .fact(
                "memory limit",
                format!("{} bytes", self.process.limit().unwrap_or_default()),
            )
            .attempt(
                "delete rows or drop views, raise --memory-limit, or keep state with --state-backend rocksdb or object",
            ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_more_is_refused_beyond_the_limit() {
        assert_eq!(MemoryGuard::new(Some(0)).check().unwrap_err().state(), "53200");
        assert!(MemoryGuard::new(Some(usize::MAX)).wait().is_ok());
        assert!(MemoryGuard::new(None).check().is_ok());
    }
}
