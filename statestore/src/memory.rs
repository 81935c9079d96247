//! The memory of the process, held against a limit.
//!
//! # Rules kept here
//! Memory is that of the process as the system counts it, without files; it is looked up [`LOOKS_APART`] apart at most.
//!
//! # Not here
//! Who gives way, and who is refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long what was seen last holds.
pub const LOOKS_APART: Duration = Duration::from_millis(20);

/// Of the limit, in percent: from here on memory is short.
const SHORT_FROM: u64 = 75;

/// Bytes of a page of memory, as the system counts them for a process.
const PAGE_BYTES: u64 = 4096;

/// Watches the memory of the process.
#[derive(Debug)]
pub struct ProcessMemory {
    limit: Option<u64>,
    started: Instant,
    /// When it was looked up last, in microseconds from the start; 0: never.
    looked: AtomicU64,
    used: AtomicU64,
}

impl ProcessMemory {
    /// # Arguments
    /// - `limit`: bytes; `None`: it may take what it needs.
    pub fn new(limit: Option<usize>) -> ProcessMemory {
        ProcessMemory {
            limit: limit.map(|limit| limit as u64),
            started: Instant::now(),
            looked: AtomicU64::new(0),
            used: AtomicU64::new(0),
        }
    }

    /// The limit in bytes.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Whether the process is over its limit.
    pub fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.used() > limit)
    }

    /// Whether the process comes near its limit.
    pub fn is_short(&self) -> bool {
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
        let none = ProcessMemory::new(Some(0));
        assert!(none.is_over() && none.is_short());
        for limit in [Some(usize::MAX), None] {
            let much = ProcessMemory::new(limit);
            assert!(!much.is_over() && !much.is_short());
        }
    }
}
