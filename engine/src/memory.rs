//! Keeps the process within its memory: what would add rows is refused, or waits, while it is over its limit.
//!
//! # Rules kept here
//! 1. Memory is that of the process as the system counts it, without files; it is looked up [`LOOKS_APART`] apart at most.
//! 2. What is kept for its convenience alone goes when memory is short, before anything is refused.
//!
//! # Not here
//! What makes room: state that leaves memory ([`cenote_statestore::spill`]).

use cenote_statestore::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long what was seen last holds.
const LOOKS_APART: Duration = Duration::from_millis(20);

/// How long a writer waits for memory before it is refused.
const WAIT: Duration = Duration::from_secs(10);

/// Of the limit, in percent: from here on memory is short.
const SHORT_FROM: u64 = 80;

/// Bytes of a page of memory, as the system counts them for a process.
const PAGE_BYTES: u64 = 4096;

/// Watches the memory of the process.
#[derive(Debug)]
pub(crate) struct MemoryGuard {
    limit: Option<u64>,
    started: Instant,
    /// When it was looked up last, in microseconds from the start; 0: never.
    looked: AtomicU64,
    used: AtomicU64,
}

impl MemoryGuard {
    pub(crate) fn new(limit: Option<usize>) -> MemoryGuard {
        MemoryGuard {
            limit: limit.map(|limit| limit as u64),
            started: Instant::now(),
            looked: AtomicU64::new(0),
            used: AtomicU64::new(0),
        }
    }

    /// Whether the process is over its limit.
    pub(crate) fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.used() > limit)
    }

    /// Whether the process comes near its limit.
    pub(crate) fn is_short(&self) -> bool {
        self.limit.is_some_and(|limit| self.used() > limit / 100 * SHORT_FROM)
    }

    /// What was seen last of the bytes that are used.
    fn used(&self) -> u64 {
        let now = self.started.elapsed().as_micros() as u64 + 1;
        let looked = self.looked.load(Ordering::Relaxed);
        if looked == 0 || now > looked + LOOKS_APART.as_micros() as u64 {
            self.looked.store(now, Ordering::Relaxed);
            self.used.store(used(), Ordering::Relaxed);
        }
        self.used.load(Ordering::Relaxed)
    }

    /// Waits until the process is within its limit again, but not for long. The system tells nobody of that, so it is looked up
    /// now and then, while rows wait.
    ///
    /// # Errors
    /// As [`MemoryGuard::check`].
    pub(crate) fn wait(&self) -> Result<()> {
        let until = Instant::now() + WAIT;
        while self.is_over() && Instant::now() < until {
            std::thread::sleep(LOOKS_APART);
        }
        self.check()
    }

    /// As [`MemoryGuard::wait`], in a task.
    pub(crate) async fn wait_in_task(&self) -> Result<()> {
        let until = Instant::now() + WAIT;
        while self.is_over() && Instant::now() < until {
            tokio::time::sleep(LOOKS_APART).await;
        }
        self.check()
    }

    /// # Errors
    /// `Unavailable` 53200: the process is over its limit.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_over() {
            return Ok(());
        }
        let message = "cannot take more rows: the process is over its memory limit";
        Err(Error::new(ErrorKind::Unavailable, "ENGINE-0007", message)
            .sqlstate("53200")
            .fact("memory limit", format!("{} bytes", self.limit.unwrap_or_default()))
            .attempt("delete rows or drop views, raise --memory-limit, or keep state with --state-backend rocksdb"))
    }
}

/// Bytes that the process uses for itself.
fn used() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = pages.split(' ').skip(1).map_while(|pages| pages.parse::<u64>().ok());
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(shared) * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_over_its_limit_if_it_uses_more() {
        assert!(used() > 0, "this system tells of memory");
        assert!(MemoryGuard::new(Some(0)).is_over());
        assert_eq!(MemoryGuard::new(Some(0)).check().unwrap_err().state(), "53200");
        assert!(!MemoryGuard::new(Some(usize::MAX)).is_over());
        assert!(!MemoryGuard::new(None).is_over());
        assert!(!MemoryGuard::new(None).is_short());
        assert!(!MemoryGuard::new(Some(usize::MAX)).is_short());
        assert!(MemoryGuard::new(Some(0)).is_short());
    }
}
