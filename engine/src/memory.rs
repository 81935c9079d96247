//! Keeps the process within its memory: what would add rows is refused, or waits, while it is over its limit.
//!
//! # Rules kept here
//! Memory is that of the process as the system counts it, without files; it is looked up [`LOOKS_APART`] apart at most.
//!
//! # Not here
//! What makes room: state that leaves memory ([`cenote_statestore::spill`]).

use cenote_statestore::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long what was seen last holds.
const LOOKS_APART: Duration = Duration::from_millis(20);

/// How long a source waits for memory before it is refused.
const WAIT: Duration = Duration::from_secs(10);

/// Bytes of a page of memory, as the system counts them for a process.
const PAGE_BYTES: u64 = 4096;

/// Watches the memory of the process.
#[derive(Debug)]
pub(crate) struct MemoryGuard {
    limit: Option<u64>,
    started: Instant,
    /// When it was looked up last, in microseconds from the start; 0: never.
    looked: AtomicU64,
    is_over: AtomicBool,
}

impl MemoryGuard {
    pub(crate) fn new(limit: Option<usize>) -> MemoryGuard {
        MemoryGuard {
            limit: limit.map(|limit| limit as u64),
            started: Instant::now(),
            looked: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Whether the process is over its limit.
    pub(crate) fn is_over(&self) -> bool {
        let Some(limit) = self.limit else {
            return false;
        };
        let now = self.started.elapsed().as_micros() as u64 + 1;
        let looked = self.looked.load(Ordering::Relaxed);
        if looked == 0 || now > looked + LOOKS_APART.as_micros() as u64 {
            self.looked.store(now, Ordering::Relaxed);
            self.is_over.store(used() > limit, Ordering::Relaxed);
        }
        self.is_over.load(Ordering::Relaxed)
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
            .attempt(
                "delete rows or drop views, raise --memory-limit, or keep state with --state-backend rocksdb or object",
            ))
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
    }
}
