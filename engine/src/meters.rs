//! What each operator of a view has done since the view was created, counted over all workers.
//!
//! # Rules kept here
//! Counters are added to once per batch, never per row.
//!
//! # Not here
//! The size of state, which operators tell themselves ([`crate::kernel::Kernel::size`]).

use cpu_time::ThreadTime;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The meters of one view: one per node of its plan, one for the step that writes its table, and one for that which
/// writes its errors.
#[derive(Debug)]
pub struct ViewMeters(Vec<OperatorMeter>);

/// Counters of one operator.
#[derive(Debug, Default)]
pub struct OperatorMeter {
    rows_in: AtomicU64,
    rows_out: AtomicU64,
    batches_in: AtomicU64,
    batches_out: AtomicU64,
    cpu_nanos: AtomicU64,
}

/// What one operator has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorFigures {
    /// Changes taken.
    pub rows_in: u64,
    /// Changes given.
    pub rows_out: u64,
    /// Batches taken.
    pub batches_in: u64,
    /// Batches given.
    pub batches_out: u64,
    /// Time on the processor, of all workers together.
    pub cpu: Duration,
}

impl ViewMeters {
    /// Meters at zero for a plan of so many nodes.
    pub fn new(nodes: usize) -> ViewMeters {
        ViewMeters((0..nodes + 2).map(|_| OperatorMeter::default()).collect())
    }

    /// The meter of a node; behind the last node's are those of the view's table and of its errors.
    pub(crate) fn of(&self, node: usize) -> &OperatorMeter {
        &self.0[node]
    }

    /// What the operators have done so far, in the order of the plan's nodes, then the view's table, then its errors.
    pub fn figures(&self) -> Vec<OperatorFigures> {
        self.0.iter().map(OperatorMeter::figures).collect()
    }
}

impl OperatorMeter {
    pub(crate) fn took(&self, rows: usize) {
        self.rows_in.fetch_add(rows as u64, Ordering::Relaxed);
        self.batches_in.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn gave(&self, rows: usize) {
        self.rows_out.fetch_add(rows as u64, Ordering::Relaxed);
        self.batches_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the time that work takes on this thread's processor.
    pub(crate) fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = ThreadTime::now();
        let done = work();
        self.cpu_nanos
            .fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        done
    }

    fn figures(&self) -> OperatorFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OperatorFigures {
            rows_in: read(&self.rows_in),
            rows_out: read(&self.rows_out),
            batches_in: read(&self.batches_in),
            batches_out: read(&self.batches_out),
            cpu: Duration::from_nanos(read(&self.cpu_nanos)),
        }
    }
}
