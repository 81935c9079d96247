//! How much state stays in memory of all that may spill.
//!
//! # Rules kept here
//! 1. While all together are over the limit, whoever has at least its even share gives up what it can.
//! 2. When memory of the process is short, for whatever reason, the limit is a part of what it is else ([`PART_WHEN_SHORT`]).

use crate::ProcessMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One of so many parts of the limit is left when memory of the process is short.
const PART_WHEN_SHORT: usize = 4;

/// Memory for several tables and operators.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    shares: AtomicUsize,
    process: ProcessMemory,
}

/// What one of them uses; it is given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    used: usize,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Budget {
        Budget {
            limit,
            used: AtomicUsize::new(0),
            shares: AtomicUsize::new(0),
            process: ProcessMemory::new(None),
        }
    }

    /// The same within the memory of a process.
    pub fn within(self, process: ProcessMemory) -> Budget {
        Budget { process, ..self }
    }

    /// Bytes that may be used now.
    pub fn limit(&self) -> usize {
        match self.process.is_short() {
            true => self.limit / PART_WHEN_SHORT,
            false => self.limit,
        }
    }

    /// Bytes that are used, as far as was told.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// A share of it, of which nothing is used.
    pub fn share(self: &Arc<Self>) -> Share {
        self.shares.fetch_add(1, Ordering::Relaxed);
        Share {
            budget: self.clone(),
            used: 0,
        }
    }
}

impl Share {
    /// Whether so many bytes more are within the limit.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.budget.used().saturating_add(bytes) <= self.budget.limit()
    }

    /// Tells how much is used now.
    ///
    /// # Returns
    /// Whether it is too much.
    pub fn use_bytes(&mut self, bytes: usize) -> bool {
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.budget.used.fetch_sub(self.used, Ordering::Relaxed);
        self.used = bytes;
        let shares = self.budget.shares.load(Ordering::Relaxed).max(1);
        let limit = self.budget.limit();
        self.budget.used() > limit && bytes * 2 * shares >= limit
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.used, Ordering::Relaxed);
        self.budget.shares.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_give_way_when_all_together_are_too_much() {
        let budget = Arc::new(Budget::new(100));
        let (mut small, mut large) = (budget.share(), budget.share());
        assert!(!small.use_bytes(10));
        assert!(!large.use_bytes(90));
        assert!(large.use_bytes(95));
        assert!(!small.use_bytes(11), "too little to be worth it");
        assert!(!large.use_bytes(20));
        drop(large);
        assert_eq!(budget.used(), 11);
    }

    #[test]
    fn all_give_way_earlier_when_the_process_is_short_of_memory() {
        let budget = Arc::new(Budget::new(100).within(ProcessMemory::new(Some(0))));
        let mut share = budget.share();
        assert!(!share.use_bytes(25));
        assert!(share.use_bytes(26));
        assert!(!share.has_room_for(0));
    }
}
